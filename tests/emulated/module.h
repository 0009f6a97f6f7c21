/* A SPIR-V module as instructions, with what is asked and added while it is rewritten. */

#pragma once

#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

using Word = uint32_t;
using Words = std::vector<Word>;

namespace op {
enum : Word {
    Undef = 1, Extension = 10, EntryPoint = 15, ExecutionMode = 16, Capability = 17, TypeVoid = 19, TypeBool = 20, TypeInt = 21,
    TypeFloat = 22, TypeVector = 23, TypeArray = 28, TypePointer = 32, TypeFunction = 33, TypeForwardPointer = 39, Constant = 43,
    ConstantComposite = 44, SpecConstant = 50, SpecConstantComposite = 51, SpecConstantOp = 52, Function = 54,
    FunctionParameter = 55, FunctionEnd = 56, FunctionCall = 57, Variable = 59, Load = 61, Store = 62, AccessChain = 65,
    InBoundsAccessChain = 66, Decorate = 71, VectorExtractDynamic = 77, CompositeConstruct = 80, CompositeExtract = 81,
    CompositeInsert = 82, CopyObject = 83, ConvertFToU = 109, ConvertFToS = 110, ConvertSToF = 111, ConvertUToF = 112,
    UConvert = 113, SConvert = 114, FConvert = 115, Bitcast = 124, SNegate = 126, FNegate = 127, IAdd = 128, FAdd = 129,
    ISub = 130, FSub = 131, IMul = 132, FMul = 133, UDiv = 134, SDiv = 135, FDiv = 136, UMod = 137, MatrixTimesScalar = 143,
    IsNan = 156, Select = 169, ULessThan = 176, ShiftRightLogical = 194, ShiftLeftLogical = 196, BitwiseOr = 197,
    BitwiseAnd = 199, BitFieldSExtract = 202, ControlBarrier = 224, MemoryBarrier = 225, Phi = 245, LoopMerge = 246,
    SelectionMerge = 247, Label = 248, Branch = 249, BranchConditional = 250, Return = 253, ReturnValue = 254,
    ExecutionModeId = 331, TypeCooperativeMatrix = 4456, CooperativeMatrixLoad = 4457, CooperativeMatrixStore = 4458,
    CooperativeMatrixMulAdd = 4459, CooperativeMatrixLength = 4460,
};
}

namespace capability {
enum : Word {
    GroupNonUniform = 61, BFloat16Type = 5116, BFloat16DotProduct = 5117, BFloat16CooperativeMatrix = 5118, CooperativeMatrix = 6022,
};
}

enum Storage : Word { Input = 1, Workgroup = 4, InFunction = 7 };
enum BuiltIn : Word {
    LocalInvocationIndex = 29, SubgroupSize = 36, NumSubgroups = 38, SubgroupId = 40, SubgroupLocalInvocationId = 41,
};
enum : Word { LocalSize = 17, LocalSizeId = 38, OfBuiltIn = 11, ScopeWorkgroup = 2, ScopeSubgroup = 3 };

struct Instruction {
    Word code;
    /* All words after the first. */
    Words operands;

    bool operator==(const Instruction &other) const { return code == other.code && operands == other.operands; }
};

using Instructions = std::vector<Instruction>;

/* What the rewriter does not know; the module cannot be emulated. */
struct Unknown : std::runtime_error {
    using std::runtime_error::runtime_error;
};

/* A module in sections: what precedes the types; types, constants and variables; functions. */
class Module {
  public:
    Module(const Word *words, size_t count);
    Words words() const;

    Word fresh() { return bound++; }
    /* The id of a type, which is added if there is none; not for arrays, which may be of equal content. */
    Word type(Word code, const Words &operands);
    Word integer() { return type(op::TypeInt, {32, 1}); }
    Word number() { return type(op::TypeInt, {32, 0}); }
    Word real() { return type(op::TypeFloat, {32}); }
    Word pointer(Storage storage, Word of) { return type(op::TypePointer, {storage, of}); }
    Word array(Word of, Word length);
    Word constant(Word of, Word value);
    Word constant(Word value) { return constant(number(), value); }
    /* A variable of the interface with a built-in number. */
    Word built_in(BuiltIn which);
    Word variable(Storage storage, Word of);
    /* Makes a variable one of the entry point's. */
    void enter(Word variable);
    void need(Word capability);

    /* The value of a constant, by default that of a specialization constant. */
    Word value(Word id) const;
    /* The instruction that defines a global id. */
    const Instruction &global(Word id) const;
    bool is_type(Word id) const { return types.count(id) != 0; }
    /* Notes a type that is added in place. */
    void define(const Instruction &instruction);

    Instructions head, globals, functions;
    /* The type of each result. */
    std::map<Word, Word> type_of;

  private:
    Word version, generator, bound;
    std::map<Word, Instruction> definitions;
    std::map<Word, bool> types;
    std::map<std::pair<Word, Word>, Word> constants;
};

inline bool is_type_code(Word code) { return code >= op::TypeVoid && code <= op::TypeForwardPointer; }

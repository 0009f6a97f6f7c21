#include "rewrite.h"

#include <algorithm>
#include <cstring>
#include <set>

bool has_matrices(const Word *words, size_t count) {
    for (size_t at = 5; at + 1 < count && words[at] == (2u << 16 | op::Capability); at += 2)
        if (words[at + 1] == capability::CooperativeMatrix)
            return true;
    return false;
}

static const std::set<Word> REMOVED = {capability::CooperativeMatrix, capability::BFloat16Type, capability::BFloat16DotProduct,
                                       capability::BFloat16CooperativeMatrix};
/* Operations of each element, and those that take and give matrices whole, now arrays. */
static const std::set<Word> BY_ELEMENT = {op::UConvert, op::SConvert, op::FConvert, op::ConvertFToU, op::ConvertFToS,
                                          op::ConvertSToF, op::ConvertUToF, op::Bitcast, op::SNegate, op::FNegate, op::IAdd,
                                          op::FAdd, op::ISub, op::FSub, op::IMul, op::FMul, op::UDiv, op::SDiv, op::FDiv,
                                          op::MatrixTimesScalar};
static const std::set<Word> AS_ARRAYS = {op::Undef, op::Function, op::FunctionParameter, op::FunctionCall, op::Load, op::Select, op::Phi,
                                         op::CopyObject, op::CompositeExtract, op::CompositeInsert};

/* Cooperative matrix operands: both factors, the addend and the result have signs. */
static constexpr Word ALL_SIGNED = 0xf;

class Rewriter {
  public:
    Rewriter(const Word *words, size_t count, const Layout &layout)
        : module(words, count), layout(layout), made(module, layout, subgroups()) {}

    Words run() {
        module.need(capability::GroupNonUniform);
        declarations();
        find_numbers();
        types();
        Instructions old;
        old.swap(module.functions);
        Instructions whole;
        for (const Instruction &one : old) {
            out.clear();
            function(one);
            whole.insert(whole.end(), out.begin(), out.end());
        }
        made.finish();
        module.functions.insert(module.functions.begin(), whole.begin(), whole.end());
        return module.words();
    }

  private:
    Word subgroups() const {
        for (const Instruction &one : module.head) {
            const Words &of = one.operands;
            if (one.code == op::ExecutionMode && of[1] == LocalSize)
                return (of[2] * of[3] * of[4] + layout.lanes - 1) / layout.lanes;
            if (one.code == op::ExecutionModeId && of[1] == LocalSizeId)
                return (module.value(of[2]) * module.value(of[3]) * module.value(of[4]) + layout.lanes - 1) / layout.lanes;
        }
        throw Unknown("no size of a workgroup");
    }

    void declarations() {
        auto removed = [](const Instruction &one) {
            if (one.code == op::Capability)
                return REMOVED.count(one.operands[0]) != 0;
            const char *name = reinterpret_cast<const char *>(one.operands.data());
            return one.code == op::Extension && (!strcmp(name, "SPV_KHR_cooperative_matrix") || !strcmp(name, "SPV_KHR_bfloat16"));
        };
        module.head.erase(std::remove_if(module.head.begin(), module.head.end(), removed), module.head.end());
    }

    Word known(Word type) const { return brains.count(type) ? real : type; }

    void types() {
        Instructions old;
        old.swap(module.globals);
        real = module.real();
        for (Instruction one : old) {
            Words &of = one.operands;
            if (one.code == op::TypeFloat && of.size() > 2) {
                brains.insert(of[0]);
                continue;
            }
            if (one.code == op::TypeCooperativeMatrix) {
                matrix(of);
                continue;
            }
            if (one.code == op::SpecConstantOp && of[2] == op::CooperativeMatrixLength)
                one = {op::Constant, {of[0], of[1], matrices.at(of[3]).elements}};
            if (one.code == op::Constant && brains.count(of[0]))
                of[2] <<= 16;
            auto shape = is_type_code(one.code) ? matrices.end() : matrices.find(of[0]);
            if (shape != matrices.end() && (one.code == op::ConstantComposite || one.code == op::SpecConstantComposite))
                of.resize(2 + shape->second.elements, of[2]);
            // Ids of types among the operands; vectors, pointers and arrays have one, beside numbers or constants.
            bool counts = one.code == op::TypeVector || one.code == op::TypePointer || one.code == op::TypeArray;
            if (!is_type_code(one.code))
                of[0] = known(of[0]);
            else if (counts)
                of[one.code == op::TypePointer ? 2 : 1] = known(of[one.code == op::TypePointer ? 2 : 1]);
            else if (one.code != op::TypeInt && one.code != op::TypeFloat)
                std::transform(of.begin(), of.end(), of.begin(), [&](Word type) { return known(type); });
            module.globals.push_back(one);
            module.define(one);
        }
    }

    void matrix(const Words &of) {
        Word rows = module.value(of[3]), columns = module.value(of[4]), all = rows * columns;
        if (all % layout.lanes)
            throw Unknown("matrices of fewer elements than lanes");
        const Instruction &component = module.global(of[1]);
        Word bits = component.operands[1];
        bool whole = component.code == op::TypeInt;
        Kind kind = whole ? (bits == 8 ? Kind::Byte : Kind::Int) : bits == 16 ? Kind::Half : Kind::Float;
        kind = brains.count(of[1]) ? Kind::Brain : kind;
        if (whole && !component.operands[2])
            throw Unknown("matrices of numbers without sign");
        matrices[of[0]] = {of[0], known(of[1]), rows, columns, all / layout.lanes, kind};
        Instruction array{op::TypeArray, {of[0], known(of[1]), module.constant(all / layout.lanes)}};
        module.globals.push_back(array);
        module.define(array);
    }

    const Matrix *of_type(Word type) const {
        auto found = matrices.find(type);
        return found == matrices.end() ? nullptr : &found->second;
    }

    Word type(Word id) const {
        auto found = module.type_of.find(id);
        return found == module.type_of.end() ? 0 : found->second;
    }

    const Matrix &matrix_of(Word id) const { return matrices.at(type(id)); }

    Word emit(Word code, Word of, const Words &operands) {
        Words all{of, module.fresh()};
        all.insert(all.end(), operands.begin(), operands.end());
        out.push_back({code, all});
        return all[1];
    }

    /* What a function is called with for an array in memory: the indices, and the stride as a number without sign. */
    Functions::Place place(Word pointer, Word rows, const Words &of, size_t after_stride, Words &arguments) {
        auto found = chains.find(pointer);
        if (found == chains.end())
            throw Unknown("matrices that are not in an array");
        const Words &chain = found->second;
        Words access(of.begin() + after_stride, of.end());
        Functions::Place own{chain[2], module.global(chain[0]).operands[2], {}, access, module.value(rows) == 0};
        for (size_t i = 3; i < chain.size(); i++) {
            own.index_types.push_back(type(chain[i]));
            arguments.push_back(chain[i]);
        }
        Word stride = of[after_stride - 1];
        arguments.push_back(type(stride) == module.number() ? stride : emit(op::Bitcast, module.number(), {stride}));
        return own;
    }

    void by_element(const Instruction &one, const Matrix &result) {
        const Words &of = one.operands;
        Words elements{of[0], of[1]};
        Word code = one.code == op::MatrixTimesScalar ? result.whole() ? op::IMul : op::FMul : one.code;
        for (Word e = 0; e < result.elements; e++) {
            Words each;
            for (size_t i = 2; i < of.size(); i++) {
                const Matrix *from = of_type(type(of[i]));
                each.push_back(from ? emit(op::CompositeExtract, from->component, {of[i], e}) : of[i]);
            }
            bool from_brain = of_type(type(of[2]))->kind == Kind::Brain;
            elements.push_back(code == op::FConvert && (result.kind == Kind::Brain || from_brain)
                                   ? converted(result.component, each[0], result.kind == Kind::Brain, module.fresh())
                                   : emit(code, result.component, each));
        }
        out.push_back({op::CompositeConstruct, elements});
    }

    /* A conversion between floats of which one is bfloat16, which is kept as a float. */
    Word converted(Word to, Word from, bool to_brain, Word result) {
        if (to_brain) {
            Word wide = type(from) && type(from) != real ? emit(op::FConvert, real, {from}) : from;
            out.push_back({op::FunctionCall, {real, result, made.brain(), wide}});
        } else {
            out.push_back({to == real ? op::CopyObject : op::FConvert, {to, result, from}});
        }
        return result;
    }

    /* The built-in numbers of subgroups, by their variables, where the driver's are others. */
    void find_numbers() {
        for (const Instruction &one : module.head)
            if (layout.joined && one.code == op::Decorate && one.operands[1] == OfBuiltIn && one.operands[2] >= SubgroupSize &&
                one.operands[2] <= SubgroupLocalInvocationId)
                joined_numbers[one.operands[0]] = one.operands[2];
    }

    void number_of_joined(const Instruction &one) {
        Word which = joined_numbers[one.operands[2]], lanes = module.constant(layout.lanes);
        if (which == SubgroupSize) {
            out.push_back({op::CopyObject, {one.operands[0], one.operands[1], lanes}});
            return;
        }
        if (which == NumSubgroups)
            throw Unknown("the number of joined subgroups");
        Word index = emit(op::Load, module.number(), {module.built_in(LocalInvocationIndex)});
        out.push_back({which == SubgroupId ? op::UDiv : op::UMod, {one.operands[0], one.operands[1], index, lanes}});
    }

    void function(Instruction one) {
        Words &of = one.operands;
        bool results = of.size() > 1 && module.is_type(of[0]);
        const Matrix *result = results ? of_type(of[0]) : nullptr;
        if (one.code == op::AccessChain || one.code == op::InBoundsAccessChain)
            chains[of[1]] = of;
        if (one.code == op::CooperativeMatrixLoad) {
            Words call{of[0], of[1], 0};
            auto own = place(of[2], of[3], of, 5, call);
            call[2] = made.loading(*result, own);
            out.push_back({op::FunctionCall, call});
        } else if (one.code == op::CooperativeMatrixStore) {
            Words call{module.type(op::TypeVoid, {}), module.fresh(), 0};
            auto own = place(of[0], of[2], of, 4, call);
            call[2] = made.storing(matrix_of(of[1]), own);
            call.push_back(of[1]);
            out.push_back({op::FunctionCall, call});
        } else if (one.code == op::Load && joined_numbers.count(of[2])) {
            number_of_joined(one);
        } else if (one.code == op::CooperativeMatrixMulAdd) {
            if (result->whole() && (of.size() < 6 || of[5] != ALL_SIGNED))
                throw Unknown("products of integers without sign, or saturating ones");
            Word called = made.multiplying(matrix_of(of[2]), matrix_of(of[3]), matrix_of(of[4]), *result);
            out.push_back({op::FunctionCall, {of[0], of[1], called, of[2], of[3], of[4]}});
        } else if (one.code == op::CooperativeMatrixLength) {
            out.push_back({op::CopyObject, {of[0], of[1], module.constant(of[0], matrices.at(of[2]).elements)}});
        } else if (one.code == op::ControlBarrier && module.value(of[0]) == ScopeSubgroup) {
            made.barrier(out, of[2]);
        } else if (result && one.code == op::CompositeConstruct) {
            of.resize(2 + result->elements, of[2]);
            out.push_back(one);
        } else if (result && BY_ELEMENT.count(one.code)) {
            by_element(one, *result);
        } else if (result && !AS_ARRAYS.count(one.code)) {
            throw Unknown("operation " + std::to_string(one.code) + " of matrices");
        } else if (one.code == op::FConvert && (brains.count(of[0]) || brains.count(type(of[2])))) {
            converted(known(of[0]), of[2], brains.count(of[0]), of[1]);
        } else {
            if (results)
                of[0] = known(of[0]);
            out.push_back(one);
        }
    }

    Module module;
    Layout layout;
    Functions made;
    Word real = 0;
    /* The types of bfloat16. */
    std::set<Word> brains;
    std::map<Word, Matrix> matrices;
    std::map<Word, Words> chains;
    std::map<Word, Word> joined_numbers;
    Instructions out;
};

Words rewritten(const Word *words, size_t count, const Layout &layout) { return Rewriter(words, count, layout).run(); }

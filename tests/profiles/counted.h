/* Modules that count what they execute: each invocation adds its instructions, in clocks of a lane, to counters in memory. */

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COUNTERS = 1024, UNIT = 16 };
/* The software driver's addresses are those of the process. A constant one leaves its cache of compiled modules valid. */
#define COUNTERS_AT 0x200000000000

typedef struct { uint32_t *words; size_t count, room; } Words;

static void push(Words *to, uint32_t code, const uint32_t *operands, size_t count) {
    if (to->count + count >= to->room) {
        to->room = 2 * to->room + count + 256;
        to->words = realloc(to->words, to->room * sizeof *to->words);
    }
    to->words[to->count++] = (uint32_t)(count + 1) << 16 | code;
    memcpy(to->words + to->count, operands, count * sizeof *operands);
    to->count += count;
}

static void append(Words *to, const Words *from) {
    to->words = realloc(to->words, (to->count + from->count) * sizeof *to->words);
    memcpy(to->words + to->count, from->words, from->count * sizeof *to->words);
    to->count += from->count;
    to->room = to->count;
}

#define PUSH(to, code, ...) \
    push(to, code, (const uint32_t[]){__VA_ARGS__}, sizeof((const uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t))

/* SPIR-V, by the names of its specification. */
enum {
    ExtInstImport = 11, ExtInst = 12, MemoryModel = 14, EntryPoint = 15, Capability = 17, TypeVoid = 19, TypeInt = 21,
    TypeVector = 23, TypeArray = 28, TypeStruct = 30, TypePointer = 32, TypeForwardPointer = 39, Constant = 43,
    ConstantComposite = 44, Function = 54, Variable = 59, Load = 61, Store = 62, AccessChain = 65, Decorate = 71,
    MemberDecorate = 72, ConvertFToU = 109, Bitcast = 124, IAdd = 128, FAdd = 129, FSub = 131, FMul = 133, UDiv = 134,
    UMod = 137, VectorTimesScalar = 142, Dot = 148, FUnordGreaterEqual = 191, ShiftRightLogical = 194, BitCount = 205,
    ControlBarrier = 224, AtomicLoad = 227, AtomicIAdd = 234, AtomicXor = 242, LoopMerge = 246, SelectionMerge = 247,
    Branch = 249, Return = 253, Unreachable = 255, GroupNonUniformElect = 333, GroupNonUniformQuadSwap = 366, SDot = 4450,
    SUDotAccSat = 4455, GroupNonUniform = 61, GroupNonUniformQuad = 68, PhysicalStorageBufferAddresses = 5347,
    PhysicalStorageBuffer64 = 5348, PhysicalStorageBuffer = 5349, Block = 2, ArrayStride = 6, BuiltIn = 11,
    LocalInvocationIndex = 29, Offset = 35,
};
enum { InUniform = 2, InInput = 1, InWorkgroup = 4, InPrivate = 6, InStorageBuffer = 12 };
enum { Sin = 13, InverseSqrt = 32 };

/* What is known of an id. */
typedef struct { uint32_t type, components, storage; int product; } Known;

static int in_memory(uint32_t storage) {
    return storage == InUniform || storage == InWorkgroup || storage == InStorageBuffer || storage == PhysicalStorageBuffer;
}

/* Clocks of a lane. */
static uint32_t clocks(uint32_t code, const uint32_t *of, const Known *known, uint32_t functions) {
    uint32_t components = known[known[of[1]].type].components;
    switch (code) {
    case ExtInst: return of[2] != functions ? 0 : of[3] >= Sin && of[3] <= InverseSqrt ? 4 * components : components;
    case Load: return in_memory(known[known[of[2]].type].storage) ? components : 0;
    case Store: return in_memory(known[known[of[0]].type].storage) ? components : 0;
    case Dot: return known[known[of[2]].type].components;
    case FAdd: case FSub: return known[of[2]].product || known[of[3]].product ? 0 : components;
    case Bitcast: return 0;
    case ControlBarrier: case LoopMerge: case SelectionMerge: return 1;
    }
    if (code >= SDot && code <= SUDotAccSat)
        return 4;
    if ((code >= AtomicLoad && code <= AtomicXor) || (code >= GroupNonUniformElect && code <= GroupNonUniformQuadSwap))
        return 1;
    return (code >= ConvertFToU && code <= FUnordGreaterEqual) || (code >= ShiftRightLogical && code <= BitCount) ? components : 0;
}

/* Ids that are added, from `first` on. */
enum { PRIVATE_POINTER, INPUT_POINTER, COUNT, INDEX, PAIR, LENGTH, ARRAY, BLOCK, BLOCK_POINTER, ELEMENT_POINTER, LOW, HIGH, ADDRESS,
       ZERO, ONE, HALF, UNITS, ADDED };

/* Notes what an instruction says of an id: a type, or a result of a type. */
static void learn(Known *known, uint32_t bound, uint32_t code, const uint32_t *of, size_t count) {
    if (code >= TypeVoid && code <= TypeForwardPointer) {
        known[of[0]].components = code == TypeVector ? of[2] : 1;
        known[of[0]].storage = code == TypePointer ? of[1] : 0;
    } else if (count > 1 && of[0] < bound && of[1] < bound && known[of[0]].components) {
        known[of[1]].type = of[0];
        known[of[1]].product = code == FMul || code == VectorTimesScalar;
    }
}

/* What a module has already: a type of numbers must not be declared twice. */
typedef struct { uint32_t number, pair, index, entry, functions; } Found;

static Found found_in(const uint32_t *code, size_t count, uint32_t first) {
    Found found = {0, first + PAIR, first + INDEX, 0, 0};
    for (size_t at = 5; at < count; at += code[at] >> 16) {
        const uint32_t *of = code + at + 1;
        switch (code[at] & 0xffff) {
        case ExtInstImport: found.functions = strcmp((const char *)(of + 1), "GLSL.std.450") ? found.functions : of[0]; break;
        case EntryPoint: found.entry = of[1]; break;
        case TypeInt: found.number = of[1] == 32 && !of[2] ? of[0] : found.number; break;
        case TypeVector: found.pair = of[1] == found.number && of[2] == 2 ? of[0] : found.pair; break;
        case Decorate: found.index = of[1] == BuiltIn && of[2] == LocalInvocationIndex ? of[0] : found.index; break;
        }
    }
    if (!found.number) {
        fprintf(stderr, "profile layer: a module without numbers cannot be counted\n");
        abort();
    }
    return found;
}

/* An instruction before the types. */
static void add_to_head(Words *head, const Found *found, uint32_t first, uint32_t code, const uint32_t *of, size_t count) {
    uint32_t own[256];
    if ((code != MemoryModel && code != EntryPoint) || count + 2 > sizeof own / sizeof *own) {
        push(head, code, of, count);
        return;
    }
    memcpy(own, of, count * sizeof *own);
    if (code == MemoryModel) {
        own[0] = PhysicalStorageBuffer64;
    } else {
        own[count++] = first + COUNT;
        own[count] = found->index;
        count += found->index == first + INDEX;
    }
    push(head, code, own, count);
}

static void declare(Words *head, Words *globals, const Found *found, uint32_t first) {
    uint32_t number = found->number;
    PUSH(head, Decorate, first + ARRAY, ArrayStride, 4);
    PUSH(head, Decorate, first + BLOCK, Block);
    PUSH(head, MemberDecorate, first + BLOCK, 0, Offset, 0);
    PUSH(globals, Constant, number, first + ZERO, 0);
    PUSH(globals, Constant, number, first + ONE, 1);
    PUSH(globals, Constant, number, first + HALF, UNIT / 2);
    PUSH(globals, Constant, number, first + UNITS, UNIT);
    PUSH(globals, Constant, number, first + LENGTH, COUNTERS);
    PUSH(globals, Constant, number, first + LOW, (uint32_t)COUNTERS_AT);
    PUSH(globals, Constant, number, first + HIGH, (uint32_t)(COUNTERS_AT >> 32));
    PUSH(globals, TypePointer, first + PRIVATE_POINTER, InPrivate, number);
    PUSH(globals, Variable, first + PRIVATE_POINTER, first + COUNT, InPrivate, first + ZERO);
    if (found->index == first + INDEX) {
        PUSH(head, Decorate, first + INDEX, BuiltIn, LocalInvocationIndex);
        PUSH(globals, TypePointer, first + INPUT_POINTER, InInput, number);
        PUSH(globals, Variable, first + INPUT_POINTER, first + INDEX, InInput);
    }
    if (found->pair == first + PAIR)
        PUSH(globals, TypeVector, found->pair, number, 2);
    PUSH(globals, ConstantComposite, found->pair, first + ADDRESS, first + LOW, first + HIGH);
    PUSH(globals, TypeArray, first + ARRAY, number, first + LENGTH);
    PUSH(globals, TypeStruct, first + BLOCK, first + ARRAY);
    PUSH(globals, TypePointer, first + BLOCK_POINTER, PhysicalStorageBuffer, first + BLOCK);
    PUSH(globals, TypePointer, first + ELEMENT_POINTER, PhysicalStorageBuffer, number);
}

/* Adds an invocation's count to the counters, before it ends. */
static void report(Words *to, const Found *found, uint32_t first, uint32_t *bound) {
    uint32_t number = found->number, at = *bound;
    *bound += 8;
    PUSH(to, Load, number, at, first + COUNT);
    PUSH(to, IAdd, number, at + 1, at, first + HALF);
    PUSH(to, UDiv, number, at + 2, at + 1, first + UNITS);
    PUSH(to, Load, number, at + 3, found->index);
    PUSH(to, UMod, number, at + 4, at + 3, first + LENGTH);
    PUSH(to, Bitcast, first + BLOCK_POINTER, at + 5, first + ADDRESS);
    PUSH(to, AccessChain, first + ELEMENT_POINTER, at + 6, at + 5, first + ZERO, at + 4);
    PUSH(to, AtomicIAdd, number, at + 7, at + 6, first + ONE, first + ZERO, at + 2);
}

/* A module that counts; the caller frees its words. */
static Words counted(const uint32_t *code, size_t count) {
    uint32_t first = code[3], bound = first + ADDED, function = 0, own = 0;
    Found found = found_in(code, count, first);
    Known *known = calloc(first, sizeof *known);
    Words all = {0}, globals = {0}, body = {0}, *to = &all;
    PUSH(&all, 0, code[1], code[2], 0, 0);
    PUSH(&all, Capability, PhysicalStorageBufferAddresses);
    for (size_t at = 5, length; at < count; at += length + 1) {
        uint32_t one = code[at] & 0xffff;
        const uint32_t *of = code + at + 1;
        length = (code[at] >> 16) - 1;
        learn(known, first, one, of, length);
        if (to == &all && one >= TypeVoid && one <= TypeForwardPointer)
            to = &globals;
        if (one == Function)
            to = &body, function = of[1];
        if (to == &all) {
            add_to_head(to, &found, first, one, of, length);
            continue;
        }
        if (to == &body && length > 1 && of[1] < first)
            own += clocks(one, of, known, found.functions);
        if (own && (one == LoopMerge || one == SelectionMerge || (one >= Branch && one <= Unreachable))) {
            PUSH(&globals, Constant, found.number, bound, own);
            PUSH(&body, Load, found.number, bound + 1, first + COUNT);
            PUSH(&body, IAdd, found.number, bound + 2, bound + 1, bound);
            PUSH(&body, Store, first + COUNT, bound + 2);
            bound += 3, own = 0;
        }
        if (one == Return && function == found.entry)
            report(&body, &found, first, &bound);
        push(to, one, of, length);
    }
    declare(&all, &globals, &found, first);
    append(&all, &globals);
    append(&all, &body);
    all.words[0] = code[0];
    all.words[3] = bound;
    free(globals.words), free(body.words), free(known);
    return all;
}

/* Loads, stores and products of matrices, by lanes and through scratch memory of each subgroup. */

#include "emitter.h"

#include <algorithm>

/* NonPrivatePointer, and what a barrier of a subgroup orders: AcquireRelease, WorkgroupMemory, MakeAvailable, MakeVisible. */
static constexpr Word SHARED = 0x20, ORDERED = 0x8 | 0x100 | 0x2000 | 0x4000;

static bool fits(const Layout &layout, const Matrix &matrix) {
    Word row_lanes = layout.row_lanes, down = layout.lanes / row_lanes;
    return layout.lanes % row_lanes == 0 && matrix.columns % (row_lanes * layout.run) == 0 && matrix.rows % down == 0;
}

Functions::At Functions::place(Emitter &to, const Matrix &matrix, Word e) {
    Word lane = this->lane(to);
    At at{};
    if (fits(layout, matrix)) {
        Word row_lanes = layout.row_lanes, run = layout.run, in_row = matrix.columns / row_lanes;
        Word i = to.rest(e, in_row);
        at.row = to.add(to.over(lane, row_lanes), to.by(to.over(e, in_row), layout.lanes / row_lanes));
        at.column = to.add(to.add(to.by(to.rest(lane, row_lanes), run), to.rest(i, run)), to.by(to.over(i, run), run * row_lanes));
    } else {
        Word number = to.add(to.by(e, layout.lanes), lane);
        at = {to.over(number, matrix.columns), to.rest(number, matrix.columns)};
    }
    if (layout.mirrored)
        at = {to.minus(matrix.rows - 1, at.row), to.minus(matrix.columns - 1, at.column)};
    return at;
}

Word Functions::lane(Emitter &to) {
    if (!layout.joined)
        return to.load(module.number(), module.built_in(SubgroupLocalInvocationId));
    return to.rest(to.load(module.number(), module.built_in(LocalInvocationIndex)), layout.lanes);
}

/* Of the subgroup's part of scratch memory. */
Word Functions::base(Emitter &to) {
    Word subgroup = layout.joined ? to.over(to.load(module.number(), module.built_in(LocalInvocationIndex)), layout.lanes)
                                  : to.load(module.number(), module.built_in(SubgroupId));
    return to.times(subgroup, size);
}

Word Functions::scratch(Emitter &to, Word at) {
    return to.element(module.pointer(Workgroup, module.number()), memory, {at});
}

void Functions::barrier(Instructions &to, Word semantics) {
    Word scope = module.constant(layout.joined ? ScopeWorkgroup : ScopeSubgroup);
    if (layout.in_step && !layout.joined)
        to.push_back({op::MemoryBarrier, {scope, semantics}});
    else
        to.push_back({op::ControlBarrier, {scope, scope, semantics}});
}

void Functions::barrier(Emitter &to) {
    Instructions all;
    barrier(all, module.constant(ORDERED));
    to.act(all[0].code, all[0].operands);
}

/* A component as a word of 32 bits, floats as float32. */
Word Functions::to_word(Emitter &to, const Matrix &matrix, Word component) {
    if (matrix.kind == Kind::Half)
        component = to.emit(op::FConvert, module.real(), {component});
    if (matrix.kind == Kind::Byte)
        component = to.emit(op::SConvert, module.integer(), {component});
    return to.emit(op::Bitcast, module.number(), {component});
}

Word Functions::from_word(Emitter &to, const Matrix &matrix, Word word) {
    Word wide = to.emit(op::Bitcast, matrix.whole() ? module.integer() : module.real(), {word});
    if (matrix.kind == Kind::Half)
        return to.emit(op::FConvert, matrix.component, {wide});
    return matrix.kind == Kind::Byte ? to.emit(op::SConvert, matrix.component, {wide}) : wide;
}

/* Component `part` of those in a stored word. */
Word Functions::decoded(Emitter &to, const Matrix &matrix, Word word, Word part) {
    switch (matrix.kind) {
    case Kind::Half: {
        Word pair = to.emit(op::Bitcast, module.type(op::TypeVector, {matrix.component, 2}), {word});
        return to.emit(op::VectorExtractDynamic, matrix.component, {pair, part});
    }
    case Kind::Brain: {
        Word bits = to.emit(op::ShiftRightLogical, module.number(), {word, to.by(part, 16)});
        return to.emit(op::Bitcast, module.real(), {to.emit(op::ShiftLeftLogical, module.number(), {bits, module.constant(16)})});
    }
    case Kind::Byte: {
        Word bits = to.emit(op::Bitcast, module.integer(), {word});
        Word own = to.emit(op::BitFieldSExtract, module.integer(), {bits, to.by(part, 8), module.constant(8)});
        return to.emit(op::SConvert, matrix.component, {own});
    }
    default: return to.emit(op::Bitcast, matrix.component, {word});
    }
}

/* Writes the lane's elements to scratch memory. */
void Functions::put(Emitter &to, const Matrix &matrix, Word array, const std::function<Word(At)> &where) {
    Word held = to.local(matrix.type);
    to.store(held, array);
    to.loop(matrix.elements, [&](Word e) {
        Word own = to.load(matrix.component, to.element(module.pointer(InFunction, matrix.component), held, {e}));
        Word word = to_word(to, matrix, own);
        to.act(op::Store, {scratch(to, where(place(to, matrix, e))), word, SHARED});
    });
}

/* The word of an element in memory; parameters are the indices, then the stride. */
Word Functions::target(Emitter &to, const Place &place, Word major, Word minor, Word bytes) {
    const Instruction &pointee = module.global(place.pointee);
    bool vector = pointee.code == op::TypeVector;
    Word scalar = vector ? pointee.operands[1] : place.pointee, width = vector ? pointee.operands[2] : 1;
    if (module.global(scalar).operands.at(1) != 32)
        throw Unknown("matrices in an array of other than 32 bits");
    Words at(to.parameters().begin(), to.parameters().begin() + place.index_types.size());
    Word stride = to.parameters()[at.size()], word = to.over(minor, 4 / bytes);
    auto plain = [&](Word id) { return to.emit(op::Bitcast, module.number(), {id}); };
    Word last = place.index_types.back() == module.number() ? at.back() : plain(at.back());
    at.back() = to.add(to.add(last, to.times(major, stride)), to.over(word, width));
    if (vector)
        at.push_back(to.rest(word, width));
    const Instruction &variable = module.global(place.variable);
    return to.element(module.pointer(Storage(variable.operands[2]), scalar), place.variable, at);
}

static Words key(Word kind, const Matrix &matrix, const Functions::Place &place) {
    Words all{kind, matrix.type, place.variable, place.pointee, place.rows};
    all.insert(all.end(), place.index_types.begin(), place.index_types.end());
    all.insert(all.end(), place.access.begin(), place.access.end());
    return all;
}

static Word scalar_of(const Module &module, Word pointee) {
    const Instruction &one = module.global(pointee);
    return one.code == op::TypeVector ? one.operands[1] : pointee;
}

Word Functions::loading(const Matrix &matrix, const Place &own) {
    Word &id = made[key(0, matrix, own)];
    if (id)
        return id;
    Words parameters = own.index_types;
    parameters.push_back(module.number());
    Emitter to(module, matrix.type, parameters);
    Word held = to.local(matrix.type), stored = scalar_of(module, own.pointee);
    to.loop(matrix.elements, [&](Word e) {
        At at = along(own, place(to, matrix, e));
        Words read{target(to, own, at.row, at.column, matrix.bytes())};
        read.insert(read.end(), own.access.begin(), own.access.end());
        Word found = to.emit(op::Load, stored, read);
        if (stored != matrix.component) {
            found = stored == module.number() ? found : to.emit(op::Bitcast, module.number(), {found});
            found = decoded(to, matrix, found, to.rest(at.column, 4 / matrix.bytes()));
        }
        to.store(to.element(module.pointer(InFunction, matrix.component), held, {e}), found);
    });
    return id = to.finish(to.load(matrix.type, held));
}

/* Components of neighbouring places as a word. */
Word Functions::packed(Emitter &to, const Matrix &matrix, const Words &components) {
    if (matrix.bytes() == 4)
        return to.emit(op::Bitcast, module.number(), components);
    if (matrix.kind != Kind::Half)
        throw Unknown("a store of matrices of bytes or bfloat16");
    Word pair = to.emit(op::CompositeConstruct, module.type(op::TypeVector, {matrix.component, 2}), components);
    return to.emit(op::Bitcast, module.number(), {pair});
}

void Functions::write(Emitter &to, const Place &own, Word pointer, Word word) {
    Word stored = scalar_of(module, own.pointee);
    Words all{pointer, stored == module.number() ? word : to.emit(op::Bitcast, stored, {word})};
    all.insert(all.end(), own.access.begin(), own.access.end());
    to.act(op::Store, all);
}

bool Functions::owns_words(const Matrix &matrix, const Place &own) const {
    return matrix.bytes() == 4 || (own.rows && fits(layout, matrix) && layout.run % (4 / matrix.bytes()) == 0);
}

void Functions::store_own(Emitter &to, const Matrix &matrix, const Place &own) {
    Word held = to.local(matrix.type), in_word = 4 / matrix.bytes();
    to.store(held, to.parameters().back());
    to.loop(matrix.elements / in_word, [&](Word i) {
        Word first = to.by(i, in_word);
        Words components;
        for (Word part = 0; part < in_word; part++) {
            Word e = to.plus(first, layout.mirrored ? in_word - 1 - part : part);
            components.push_back(to.load(matrix.component, to.element(module.pointer(InFunction, matrix.component), held, {e})));
        }
        At at = along(own, place(to, matrix, to.plus(first, layout.mirrored ? in_word - 1 : 0)));
        write(to, own, target(to, own, at.row, at.column, matrix.bytes()), packed(to, matrix, components));
    });
}

/* Where two lanes have parts of a word: through scratch memory. */
void Functions::store_shared(Emitter &to, const Matrix &matrix, const Place &own) {
    if (layout.joined)
        throw Unknown("a store of parts of words by joined subgroups");
    Word in_word = 4 / matrix.bytes(), minors = own.rows ? matrix.columns : matrix.rows;
    Word count = matrix.rows * matrix.columns / in_word;
    words = std::max(words, matrix.rows * matrix.columns);
    put(to, matrix, to.parameters().back(), [&](At at) {
        at = along(own, at);
        return to.add(base(to), to.add(to.by(at.row, minors), at.column));
    });
    barrier(to);
    to.loop((count + layout.lanes - 1) / layout.lanes, [&](Word i) {
        Word number = to.add(to.by(i, layout.lanes), lane(to));
        to.when(to.emit(op::ULessThan, module.type(op::TypeBool, {}), {number, module.constant(count)}), [&] {
            Word first = to.by(number, in_word);
            Words components;
            for (Word part = 0; part < in_word; part++)
                components.push_back(from_word(to, matrix, read_scratch(to, to.add(base(to), to.plus(first, part)))));
            Word pointer = target(to, own, to.over(first, minors), to.rest(first, minors), matrix.bytes());
            write(to, own, pointer, packed(to, matrix, components));
        });
    });
    barrier(to);
}

Word Functions::storing(const Matrix &matrix, const Place &own) {
    Word &id = made[key(1, matrix, own)];
    if (id)
        return id;
    Words parameters = own.index_types;
    parameters.insert(parameters.end(), {module.number(), matrix.type});
    Emitter to(module, module.type(op::TypeVoid, {}), parameters);
    if (owns_words(matrix, own))
        store_own(to, matrix, own);
    else
        store_shared(to, matrix, own);
    return id = to.finish(0);
}

Word Functions::multiplying(const Matrix &a, const Matrix &b, const Matrix &c, const Matrix &d) {
    Word &id = made[{2, a.type, b.type, c.type, d.type}];
    if (id)
        return id;
    if (a.rows != d.rows || a.columns != b.rows || b.columns != d.columns || c.whole() != a.whole() || c.bytes() != 4 || d.kind != c.kind)
        throw Unknown("a product of these matrices");
    Word inner = a.columns, second = a.rows * inner;
    words = std::max(words, second + inner * b.columns);
    Emitter to(module, d.type, {a.type, b.type, c.type});
    put(to, a, to.parameters()[0], [&](At at) { return to.add(base(to), to.add(to.by(at.row, inner), at.column)); });
    put(to, b, to.parameters()[1], [&](At at) {
        return to.add(base(to), to.plus(to.add(to.by(at.row, b.columns), at.column), second));
    });
    barrier(to);
    Word sums = to.local(d.type), wide = c.whole() ? module.integer() : module.real();
    to.store(sums, to.parameters()[2]);
    to.loop(d.elements, [&](Word e) {
        At at = place(to, d, e);
        Word sum = to.element(module.pointer(InFunction, wide), sums, {e}), first = base(to);
        to.loop(inner, [&](Word k) {
            Word left = read_scratch(to, to.add(first, to.add(to.by(at.row, inner), k)));
            Word right = read_scratch(to, to.add(first, to.plus(to.add(to.by(k, b.columns), at.column), second)));
            left = to.emit(op::Bitcast, wide, {left});
            right = to.emit(op::Bitcast, wide, {right});
            Word product = to.emit(c.whole() ? op::IMul : op::FMul, wide, {left, right});
            to.store(sum, to.emit(c.whole() ? op::IAdd : op::FAdd, wide, {to.load(wide, sum), product}));
        });
    });
    // The next product overwrites what this one reads.
    barrier(to);
    return id = to.finish(to.load(d.type, sums));
}

Word Functions::brain() {
    Word &id = made[{3}];
    if (id)
        return id;
    Word number = module.number();
    Emitter to(module, module.real(), {module.real()});
    Word given = to.parameters()[0], bits = to.emit(op::Bitcast, number, {given});
    auto masked = [&](Word of) { return to.emit(op::BitwiseAnd, number, {of, module.constant(0xffff0000)}); };
    Word odd = to.rest(to.emit(op::ShiftRightLogical, number, {bits, module.constant(16)}), 2);
    Word nearest = masked(to.add(bits, to.plus(odd, 0x7fff)));
    Word quiet = masked(to.emit(op::BitwiseOr, number, {bits, module.constant(0x00400000)}));
    Word nan = to.emit(op::IsNan, module.type(op::TypeBool, {}), {given});
    return id = to.finish(to.emit(op::Bitcast, module.real(), {to.emit(op::Select, number, {nan, quiet, nearest})}));
}

void Functions::finish() {
    if (!words)
        return;
    Word number = module.number(), length = module.constant(words * subgroups);
    Word of_array = module.fresh(), of_pointer = module.fresh();
    module.globals.push_back({op::Constant, {number, size, words}});
    module.globals.push_back({op::TypeArray, {of_array, number, length}});
    module.globals.push_back({op::TypePointer, {of_pointer, Workgroup, of_array}});
    module.globals.push_back({op::Variable, {of_pointer, memory, Workgroup}});
    module.enter(memory);
}

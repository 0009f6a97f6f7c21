/* Writes the functions that take the place of operations on matrices. */

#pragma once

#include <functional>

#include "module.h"

/* Which lane holds which element: ROW_LANES neighbouring lanes hold whole rows, in runs of RUN columns (matrix-rows.glsl), or,
 * mirrored, the same of the matrix turned by half a turn, which the engine has no name for. */
struct Layout {
    Word lanes = 8, row_lanes = 8, run = 1;
    bool mirrored = false;
    /* Whether subgroups are joined of the driver's smaller ones: modules must then multiply and load matrices in control flow that all
     * of a workgroup share, and shuffle between the driver's own lanes. */
    bool joined = false;
    /* Whether lanes run in step, as those of a software device: lavapipe takes a barrier of a subgroup for one of the workgroup, which
     * other subgroups may never reach. */
    bool in_step = false;
};

enum class Kind { Half, Brain, Float, Byte, Int };

struct Matrix {
    Word type, component, rows, columns, elements;
    Kind kind;

    Word bytes() const { return kind == Kind::Byte ? 1 : kind == Kind::Half || kind == Kind::Brain ? 2 : 4; }
    bool whole() const { return kind == Kind::Byte || kind == Kind::Int; }
};

/* One function while it is written. */
class Emitter {
  public:
    Emitter(Module &module, Word result, const Words &parameters);

    const Words &parameters() const { return given; }
    Word emit(Word code, Word of, const Words &operands);
    void act(Word code, const Words &operands) { body.push_back({code, operands}); }
    /* Numbers without sign. */
    Word add(Word a, Word b) { return emit(op::IAdd, module.number(), {a, b}); }
    Word times(Word a, Word n) { return emit(op::IMul, module.number(), {a, n}); }
    Word over(Word a, Word n) { return n == 1 ? a : emit(op::UDiv, module.number(), {a, module.constant(n)}); }
    Word rest(Word a, Word n) { return emit(op::UMod, module.number(), {a, module.constant(n)}); }
    Word plus(Word a, Word n) { return n ? add(a, module.constant(n)) : a; }
    Word by(Word a, Word n) { return n == 1 ? a : times(a, module.constant(n)); }
    Word minus(Word n, Word a) { return emit(op::ISub, module.number(), {module.constant(n), a}); }

    Word local(Word of);
    Word load(Word of, Word pointer) { return emit(op::Load, of, {pointer}); }
    void store(Word pointer, Word what) { act(op::Store, {pointer, what}); }
    Word element(Word of, Word base, const Words &at) ;
    void loop(Word count, const std::function<void(Word)> &each);
    void when(Word condition, const std::function<void()> &then);
    /* Ends the function; `value` is 0 where it returns none. */
    Word finish(Word value);

    Module &module;

  private:
    void label(Word id) { act(op::Label, {id}); }

    Word id;
    Words given;
    Instructions begun, variables, body;
};

/* The functions of a module, each made where it is first needed. */
class Functions {
  public:
    Functions(Module &module, const Layout &layout, Word subgroups)
        : module(module), layout(layout), subgroups(subgroups), memory(module.fresh()), size(module.fresh()) {}

    /* Of matrices in an array: its variable, the types of the indices before the stride, and what follows the stride. */
    struct Place {
        Word variable, pointee;
        Words index_types, access;
        bool rows;
    };
    Word loading(const Matrix &matrix, const Place &place);
    Word storing(const Matrix &matrix, const Place &place);
    Word multiplying(const Matrix &a, const Matrix &b, const Matrix &c, const Matrix &d);
    /* The nearest bfloat16, ties to even, as a float. */
    Word brain();
    /* A barrier of a subgroup. */
    void barrier(Instructions &to, Word semantics);
    /* Makes the scratch memory as large as the functions need. */
    void finish();

  private:
    struct At {
        Word row, column;
    };
    At place(Emitter &to, const Matrix &matrix, Word e);
    Word base(Emitter &to);
    Word lane(Emitter &to);
    bool owns_words(const Matrix &matrix, const Place &place) const;
    void store_own(Emitter &to, const Matrix &matrix, const Place &place);
    void store_shared(Emitter &to, const Matrix &matrix, const Place &place);
    Word packed(Emitter &to, const Matrix &matrix, const Words &components);
    void write(Emitter &to, const Place &place, Word pointer, Word word);
    Word scratch(Emitter &to, Word at);
    Word to_word(Emitter &to, const Matrix &matrix, Word component);
    Word from_word(Emitter &to, const Matrix &matrix, Word word);
    Word decoded(Emitter &to, const Matrix &matrix, Word word, Word part);
    void put(Emitter &to, const Matrix &matrix, Word array, const std::function<Word(At)> &where);
    void barrier(Emitter &to);
    Word target(Emitter &to, const Place &place, Word major, Word minor, Word bytes);
    At along(const Place &place, At at) const { return place.rows ? at : At{at.column, at.row}; }
    Word read_scratch(Emitter &to, Word at) { return to.emit(op::Load, module.number(), {scratch(to, at), 0x20}); }

    Module &module;
    Layout layout;
    Word subgroups, words = 0;
    /* Scratch memory, and the words of a subgroup's part. */
    Word memory, size;
    std::map<Words, Word> made;
};

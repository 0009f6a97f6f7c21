/* Reading, asking and writing of modules. */

#include "module.h"

#include <algorithm>

static constexpr Word MAGIC = 0x07230203;

Module::Module(const Word *words, size_t count) {
    if (count < 5 || words[0] != MAGIC)
        throw Unknown("no SPIR-V module");
    version = words[1], generator = words[2], bound = words[3];
    int section = 0;
    for (size_t at = 5; at < count;) {
        Word code = words[at] & 0xffff, length = words[at] >> 16;
        if (!length || at + length > count)
            throw Unknown("the module ends within an instruction");
        Instruction one{code, Words(words + at + 1, words + at + length)};
        at += length;
        if (section == 0 && (is_type_code(code) || code == op::TypeCooperativeMatrix))
            section = 1;
        if (code == op::Function)
            section = 2;
        if (section == 1)
            define(one);
        else if (section == 2 && one.operands.size() > 1 && is_type(one.operands[0]))
            type_of[one.operands[1]] = one.operands[0];
        (section == 0 ? head : section == 1 ? globals : functions).push_back(one);
    }
    // What arrays and bfloat16 become made of precedes them.
    Word first[] = {number(), real()};
    Instructions moved, rest;
    for (const Instruction &one : globals) {
        bool is = is_type_code(one.code) && std::find(first, first + 2, one.operands[0]) != first + 2;
        (is ? moved : rest).push_back(one);
    }
    globals = moved;
    globals.insert(globals.end(), rest.begin(), rest.end());
}

Words Module::words() const {
    Words all{MAGIC, version, generator, bound, 0};
    for (const Instructions *section : {&head, &globals, &functions})
        for (const Instruction &one : *section) {
            all.push_back(Word(one.operands.size() + 1) << 16 | one.code);
            all.insert(all.end(), one.operands.begin(), one.operands.end());
        }
    return all;
}

void Module::define(const Instruction &one) {
    bool of_type = is_type_code(one.code) || one.code == op::TypeCooperativeMatrix;
    if (one.operands.size() < (of_type ? 1 : 2))
        return;
    if (of_type)
        types[one.operands[0]] = true;
    else
        type_of[one.operands[1]] = one.operands[0];
    definitions[one.operands[of_type ? 0 : 1]] = one;
}

Word Module::type(Word code, const Words &operands) {
    for (const auto &[id, one] : definitions)
        if (one.code == code && std::equal(one.operands.begin() + 1, one.operands.end(), operands.begin(), operands.end()))
            return id;
    Instruction one{code, {fresh()}};
    one.operands.insert(one.operands.end(), operands.begin(), operands.end());
    globals.push_back(one);
    define(one);
    return one.operands[0];
}

Word Module::array(Word of, Word length) {
    Instruction one{op::TypeArray, {0, of, constant(length)}};
    one.operands[0] = fresh();
    globals.push_back(one);
    define(one);
    return one.operands[0];
}

Word Module::constant(Word of, Word value) {
    Word &id = constants[{of, value}];
    if (!id) {
        id = fresh();
        globals.push_back({op::Constant, {of, id, value}});
        define(globals.back());
    }
    return id;
}

Word Module::variable(Storage storage, Word of) {
    Word of_pointer = pointer(storage, of), id = fresh();
    globals.push_back({op::Variable, {of_pointer, id, storage}});
    define(globals.back());
    enter(id);
    return id;
}

void Module::enter(Word variable) {
    for (Instruction &one : head)
        if (one.code == op::EntryPoint)
            one.operands.push_back(variable);
}

Word Module::built_in(BuiltIn which) {
    for (const Instruction &one : head)
        if (one.code == op::Decorate && one.operands.size() == 3 && one.operands[1] == OfBuiltIn && one.operands[2] == which)
            return one.operands[0];
    Word id = variable(Input, number());
    head.push_back({op::Decorate, {id, OfBuiltIn, which}});
    return id;
}

void Module::need(Word capability) {
    Instruction wanted{op::Capability, {capability}};
    if (std::find(head.begin(), head.end(), wanted) == head.end())
        head.insert(head.begin(), wanted);
}

const Instruction &Module::global(Word id) const {
    auto found = definitions.find(id);
    if (found == definitions.end())
        throw Unknown("id " + std::to_string(id) + " is not a global one");
    return found->second;
}

Word Module::value(Word id) const {
    const Instruction &one = global(id);
    if (one.code != op::Constant && one.code != op::SpecConstant)
        throw Unknown("id " + std::to_string(id) + " is no plain constant");
    return one.operands[2];
}

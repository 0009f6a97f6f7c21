#include "emitter.h"

Emitter::Emitter(Module &module, Word result, const Words &parameters) : module(module), id(module.fresh()) {
    Words of{result};
    of.insert(of.end(), parameters.begin(), parameters.end());
    begun.push_back({op::Function, {result, id, 0, module.type(op::TypeFunction, of)}});
    for (Word type : parameters) {
        given.push_back(module.fresh());
        begun.push_back({op::FunctionParameter, {type, given.back()}});
    }
    begun.push_back({op::Label, {module.fresh()}});
}

Word Emitter::emit(Word code, Word of, const Words &operands) {
    Words all{of, module.fresh()};
    all.insert(all.end(), operands.begin(), operands.end());
    body.push_back({code, all});
    return all[1];
}

Word Emitter::local(Word of) {
    Word own = module.fresh();
    variables.push_back({op::Variable, {module.pointer(InFunction, of), own, InFunction}});
    return own;
}

Word Emitter::element(Word of, Word base, const Words &at) {
    Words all{base};
    all.insert(all.end(), at.begin(), at.end());
    return emit(op::AccessChain, of, all);
}

void Emitter::loop(Word count, const std::function<void(Word)> &each) {
    Word counter = local(module.number()), head = module.fresh(), test = module.fresh(), inside = module.fresh(),
         next = module.fresh(), after = module.fresh();
    store(counter, module.constant(0u));
    act(op::Branch, {head});
    label(head);
    act(op::LoopMerge, {after, next, 2 /* DontUnroll */});
    act(op::Branch, {test});
    label(test);
    Word number = load(module.number(), counter);
    Word more = emit(op::ULessThan, module.type(op::TypeBool, {}), {number, module.constant(count)});
    act(op::BranchConditional, {more, inside, after});
    label(inside);
    each(number);
    act(op::Branch, {next});
    label(next);
    store(counter, plus(number, 1));
    act(op::Branch, {head});
    label(after);
}

void Emitter::when(Word condition, const std::function<void()> &then) {
    Word inside = module.fresh(), after = module.fresh();
    act(op::SelectionMerge, {after, 0});
    act(op::BranchConditional, {condition, inside, after});
    label(inside);
    then();
    act(op::Branch, {after});
    label(after);
}

Word Emitter::finish(Word value) {
    if (value)
        act(op::ReturnValue, {value});
    else
        act(op::Return, {});
    act(op::FunctionEnd, {});
    for (Instructions *part : {&begun, &variables, &body})
        module.functions.insert(module.functions.end(), part->begin(), part->end());
    return id;
}

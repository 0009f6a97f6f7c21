//! Built-in values as arguments of the functions that use them.
//!
//! naga copies them into private variables, whose values WGSL never takes to be the same in all invocations, so that a
//! browser would refuse every barrier whose condition depends on one.

use std::collections::HashMap;

use naga::{
    Binding, Block, Expression, Function, FunctionArgument, GlobalVariable, Handle, LocalVariable, Module, Span,
    Statement,
};

/// A private variable, and the argument of the entry point that it has a copy of.
type BuiltIn = (Handle<GlobalVariable>, FunctionArgument);

/// Replaces the private variables of a module in the form that naga gives it: an entry point that stores its arguments
/// in them and calls the main function.
///
/// # Errors
/// An entry point of another form.
pub(super) fn pass(module: &mut Module) -> Result<(), String> {
    let entry = module.entry_points.first().ok_or("it has no entry point")?;
    let mut all: Vec<BuiltIn> = Vec::new();
    for statement in entry.function.body.iter() {
        let Statement::Store { pointer, value } = statement else { continue };
        let expressions = &entry.function.expressions;
        let (Expression::GlobalVariable(variable), Expression::FunctionArgument(place)) =
            (&expressions[*pointer], &expressions[*value])
        else {
            return Err("it has a built-in value of an unusual type".into());
        };
        all.push((*variable, entry.function.arguments[*place as usize].clone()));
    }
    // The indices of what each function needs. Callees come first.
    let mut needs: HashMap<Handle<Function>, Vec<usize>> = HashMap::new();
    for (handle, function) in module.functions.iter_mut() {
        let mut own: Vec<usize> = all.iter().enumerate().filter(|(_, b)| uses(function, b.0)).map(|(i, _)| i).collect();
        calls(&mut function.body, &mut |callee, _| own.extend(needs.get(&callee).into_iter().flatten()));
        own.sort_unstable();
        own.dedup();
        let given = take(function, &all, &own);
        hand_on(&mut function.body, &needs, &given);
        needs.insert(handle, own);
    }
    let entry = &mut module.entry_points[0].function;
    let argument = |(handle, expression): (_, &Expression)| match expression {
        Expression::FunctionArgument(place) => Some((*place as usize, handle)),
        _ => None,
    };
    let given = entry.expressions.iter().filter_map(argument).collect();
    let mut body = Block::new();
    let kept = entry.body.iter().filter(|statement| !matches!(statement, Statement::Store { .. }));
    kept.for_each(|statement| body.push(statement.clone(), Span::UNDEFINED));
    hand_on(&mut body, &needs, &given);
    entry.body = body;
    Ok(())
}

fn uses(function: &Function, variable: Handle<GlobalVariable>) -> bool {
    function.expressions.iter().any(|(_, e)| matches!(e, Expression::GlobalVariable(other) if *other == variable))
}

/// Adds arguments, copied to local variables in place of the private ones; returns the arguments' expressions.
fn take(function: &mut Function, all: &[BuiltIn], own: &[usize]) -> HashMap<usize, Handle<Expression>> {
    let mut given = HashMap::new();
    let mut start = Block::new();
    for place in own {
        let (global, FunctionArgument { ty, binding, .. }) = &all[*place];
        let name = match binding {
            Some(Binding::BuiltIn(builtin)) => snake_case(&format!("{builtin:?}")),
            _ => "builtin".to_owned(),
        };
        let argument = Expression::FunctionArgument(function.arguments.len() as u32);
        function.arguments.push(FunctionArgument { name: Some(name.clone()), ty: *ty, binding: None });
        let value = function.expressions.append(argument, Span::UNDEFINED);
        given.insert(*place, value);
        let reads = function.expressions.iter();
        let reads = reads.filter(|(_, e)| matches!(e, Expression::GlobalVariable(other) if other == global));
        let reads: Vec<_> = reads.map(|(handle, _)| handle).collect();
        let Some(pointer) = reads.first().copied() else { continue };
        let local = LocalVariable { name: Some(format!("own_{name}")), ty: *ty, init: None };
        let local = function.local_variables.append(local, Span::UNDEFINED);
        for handle in reads {
            function.expressions[handle] = Expression::LocalVariable(local);
        }
        start.push(Statement::Store { pointer, value }, Span::UNDEFINED);
    }
    let body = std::mem::replace(&mut function.body, start);
    function.body.extend_block(body);
    given
}

/// `LocalInvocationIndex` as `local_invocation_index`.
fn snake_case(name: &str) -> String {
    let word = |c: char| if c.is_uppercase() { format!("_{}", c.to_ascii_lowercase()) } else { c.to_string() };
    name.chars().map(word).collect::<String>().trim_start_matches('_').to_owned()
}

/// Shows each call of a block: the function and the arguments.
fn calls(block: &mut Block, see: &mut impl FnMut(Handle<Function>, &mut Vec<Handle<Expression>>)) {
    for statement in block.iter_mut() {
        match statement {
            Statement::Call { function, arguments, .. } => see(*function, arguments),
            Statement::Block(inner) => calls(inner, see),
            Statement::If { accept, reject, .. } => [accept, reject].into_iter().for_each(|inner| calls(inner, see)),
            Statement::Switch { cases, .. } => cases.iter_mut().for_each(|case| calls(&mut case.body, see)),
            Statement::Loop { body, continuing, .. } => {
                [body, continuing].into_iter().for_each(|inner| calls(inner, see));
            }
            _ => {}
        }
    }
}

/// Adds to each call the values that its function needs.
fn hand_on(
    block: &mut Block,
    needs: &HashMap<Handle<Function>, Vec<usize>>,
    given: &HashMap<usize, Handle<Expression>>,
) {
    calls(block, &mut |function, arguments| {
        arguments.extend(needs.get(&function).into_iter().flatten().filter_map(|place| given.get(place)));
    });
}

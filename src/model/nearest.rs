//! The name that another may be a misspelling of.

/// The known name that a name with one or two letters more, fewer or others is; one in a short name.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let most = if name.len() < 6 { 1 } else { 2 };
    let near = known.into_iter().map(|known| (distance(name, known), known)).filter(|(distance, _)| *distance <= most);
    near.min_by_key(|(distance, _)| *distance).map(|(_, known)| known)
}

/// The number of letters to insert, delete or replace to make one name the other.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (place, letter) in one.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], place + 1);
        for (column, expected) in other.iter().enumerate() {
            let replaced = diagonal + usize::from(letter != *expected);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_is_two_letters_and_one_in_short_names() {
        assert_eq!((distance("kitten", "sitting"), distance("", "ab"), distance("ab", "ab")), (3, 2, 0));
        let known = ["hidden_size", "hidden_sizes", "dim"];
        let of = |name| nearest(name, known);
        assert_eq!((of("hiden_sise"), of("hidden_sizess"), of("dims")), (Some(known[0]), Some(known[1]), Some("dim")));
        assert_eq!((of("dog"), of("hidden"), of("")), (None, None, None));
    }
}

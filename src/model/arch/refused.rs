//! Families that are known and do not load.

/// `model_type`, and why.
pub const REFUSED: &[(&str, &str)] = &[
    (
        "mra",
        "its attention over blocks is a CUDA extension without another definition: where that is missing, the reference \
         answers zeros; take an encoder with full attention",
    ),
    (
        "nystromformer",
        "its attention goes over landmarks that are means of a padded row, divided by a number that all texts of a batch \
         share, so that the reference's answer depends on the other texts; take an encoder with full attention",
    ),
];

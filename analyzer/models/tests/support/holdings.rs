use heapreel_models::{Holding, Model};

/// Each live block has a holding of its size at least, and together they are no more than
/// is held.
pub fn check(model: &dyn Model) {
    let (holdings, whole) = (model.holdings(), model.counters());
    assert_eq!(holdings.len() as u64, whole.blocks);
    let sum = |of: fn(&Holding) -> u64| holdings.iter().map(of).sum::<u64>();
    assert_eq!(sum(|it| it.requested), whole.requested);
    assert!(sum(|it| it.held) <= whole.held);
    assert!(holdings.iter().all(|it| it.held >= it.requested));
}

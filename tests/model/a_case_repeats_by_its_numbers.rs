use crate::case::Case;
use crate::world::World;

#[test]
fn two_worlds_of_one_case_expect_the_same() {
    let case = Case::plain(7, 3, 5);
    let (one, other) = (World::new(&case), World::new(&case));
    assert_eq!(one.expected.ids, other.expected.ids);
    assert_eq!(one.expected.rows, other.expected.rows);
    assert!(one.expected.rows.len() > 100);
}

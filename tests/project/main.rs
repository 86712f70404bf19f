//! Rules of the code base that a compiler does not check.

mod layers_name_only_what_the_table_lists;

-- Asks how many different parts were ever ordered.
-- Shuffles the part key of every line of lineitem to count each once.
select count(distinct l_partkey) as parts
from lineitem;

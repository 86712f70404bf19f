-- Asks for the hundred dearest orders of more than 300 units, with who placed them.
-- Shuffles all of lineitem by order for the units, and meets it there again for the sums.
with large as (
    select l_orderkey as orderkey
    from lineitem
    group by l_orderkey
    having sum(l_quantity) > 300
)
select
    c.c_name,
    c.c_custkey,
    o.o_orderkey,
    o.o_orderdate,
    o.o_totalprice,
    sum(l.l_quantity) as units
from large
join orders o on o.o_orderkey = large.orderkey
join customer c on c.c_custkey = o.o_custkey
join lineitem l on l.l_orderkey = o.o_orderkey
group by c.c_name, c.c_custkey, o.o_orderkey, o.o_orderdate, o.o_totalprice
order by o.o_totalprice desc, o.o_orderdate, o.o_orderkey
limit 100;

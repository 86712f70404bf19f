-- Asks what was earned in each year with parts in green shades, by the nation of the supplier.
-- Shuffles the lines of lineitem by part, by supplier and by order, then the earnings by nation and year.
with lines as (
    select
        n.n_name as nation,
        extract(year from o.o_orderdate) as year,
        l.l_extendedprice * (1 - l.l_discount) - ps.ps_supplycost * l.l_quantity as earned
    from lineitem l
    join part p on p.p_partkey = l.l_partkey
    join partsupp ps
        on ps.ps_partkey = l.l_partkey
        and ps.ps_suppkey = l.l_suppkey
    join supplier s on s.s_suppkey = l.l_suppkey
    join nation n on n.n_nationkey = s.s_nationkey
    join orders o on o.o_orderkey = l.l_orderkey
    where p.p_name like '%green%'
)
select nation, year, sum(earned) as earned
from lines
group by nation, year
order by nation, year desc;

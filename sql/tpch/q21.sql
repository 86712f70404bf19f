-- Asks which suppliers of Saudi Arabia alone kept a finished order waiting, where others had a part in it.
-- Shuffles lineitem by order three times: the late lines, all others of the order, and other late ones.
with late as (
    select l_orderkey as orderkey, l_suppkey as suppkey
    from lineitem
    where l_receiptdate > l_commitdate
)
select s.s_name, count(*) as waits
from supplier s
join nation n on n.n_nationkey = s.s_nationkey
join late on late.suppkey = s.s_suppkey
join orders o on o.o_orderkey = late.orderkey
where n.n_name = 'SAUDI ARABIA'
    and o.o_orderstatus = 'F'
    and exists (
        select 1
        from lineitem other
        where other.l_orderkey = late.orderkey
            and other.l_suppkey <> late.suppkey
    )
    and not exists (
        select 1
        from late as other
        where other.orderkey = late.orderkey
            and other.suppkey <> late.suppkey
    )
group by s.s_name
order by waits desc, s.s_name
limit 100;

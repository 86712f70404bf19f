-- Asks how many catalog orders came from several warehouses, were never returned, and went to Georgia in early 2002, and what they cost.
-- Shuffles catalog_sales against itself by order number, and the returns too.
with orders as (
    select
        cs.cs_order_number as order_number,
        cs.cs_warehouse_sk as warehouse_sk,
        cs.cs_ext_ship_cost as ship_cost,
        cs.cs_net_profit as profit
    from catalog_sales cs
    join date_dim d on d.d_date_sk = cs.cs_ship_date_sk
    join customer_address ca on ca.ca_address_sk = cs.cs_ship_addr_sk
    join call_center cc on cc.cc_call_center_sk = cs.cs_call_center_sk
    where d.d_date between date '2002-02-01' and date '2002-02-01' + interval '60' day
        and ca.ca_state = 'GA'
        and cc.cc_county = 'Williamson County'
)
select
    count(distinct o.order_number) as orders,
    sum(o.ship_cost) as ship_cost,
    sum(o.profit) as profit
from orders o
where exists (
        select 1
        from catalog_sales other
        where other.cs_order_number = o.order_number
            and other.cs_warehouse_sk <> o.warehouse_sk
    )
    and not exists (
        select 1
        from catalog_returns cr
        where cr.cr_order_number = o.order_number
    )
limit 100;

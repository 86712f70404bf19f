-- Asks how many web orders came from several warehouses, were never returned, and went to Illinois in early 1999, and what they cost.
-- Shuffles web_sales against itself by order number, and the returns too.
with orders as (
    select
        ws.ws_order_number as order_number,
        ws.ws_warehouse_sk as warehouse_sk,
        ws.ws_ext_ship_cost as ship_cost,
        ws.ws_net_profit as profit
    from web_sales ws
    join date_dim d on d.d_date_sk = ws.ws_ship_date_sk
    join customer_address ca on ca.ca_address_sk = ws.ws_ship_addr_sk
    join web_site site on site.web_site_sk = ws.ws_web_site_sk
    where d.d_date between date '1999-02-01' and date '1999-02-01' + interval '60' day
        and ca.ca_state = 'IL'
        and site.web_company_name = 'pri'
)
select
    count(distinct o.order_number) as orders,
    sum(o.ship_cost) as ship_cost,
    sum(o.profit) as profit
from orders o
where exists (
        select 1
        from web_sales other
        where other.ws_order_number = o.order_number
            and other.ws_warehouse_sk <> o.warehouse_sk
    )
    and not exists (
        select 1
        from web_returns wr
        where wr.wr_order_number = o.order_number
    )
limit 100;

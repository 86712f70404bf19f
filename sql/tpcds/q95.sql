-- Asks what returned web orders filled from several warehouses cost to ship to Illinois in sixty days of early 1999.
-- Shuffles web_sales against itself by order number to find the split orders, and the returns with them.
with split_orders as (
    select one.ws_order_number as order_number
    from web_sales one
    join web_sales other
        on other.ws_order_number = one.ws_order_number
        and other.ws_warehouse_sk <> one.ws_warehouse_sk
)
select
    count(distinct ws.ws_order_number) as orders,
    sum(ws.ws_ext_ship_cost) as shipping_cost,
    sum(ws.ws_net_profit) as net_profit
from web_sales ws
join date_dim d on d.d_date_sk = ws.ws_ship_date_sk
join customer_address ca on ca.ca_address_sk = ws.ws_ship_addr_sk
join web_site site on site.web_site_sk = ws.ws_web_site_sk
where d.d_date between date '1999-02-01' and date '1999-02-01' + interval '60' day
    and ca.ca_state = 'IL'
    and site.web_company_name = 'pri'
    and ws.ws_order_number in (select order_number from split_orders)
    and ws.ws_order_number in (
        select wr.wr_order_number
        from web_returns wr
        join split_orders so on so.order_number = wr.wr_order_number
    )
order by orders
limit 100;

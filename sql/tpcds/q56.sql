-- Asks what items of three colours sold in February 2001 to eastern customers over all channels.
-- Shuffles the sales of all channels by item and address to join them, and by item id for the sums.
with sales as (
    select ss_item_sk as item_sk, ss_sold_date_sk as date_sk, ss_addr_sk as addr_sk,
        ss_ext_sales_price as price
    from store_sales
    union all
    select cs_item_sk as item_sk, cs_sold_date_sk as date_sk, cs_bill_addr_sk as addr_sk,
        cs_ext_sales_price as price
    from catalog_sales
    union all
    select ws_item_sk as item_sk, ws_sold_date_sk as date_sk, ws_bill_addr_sk as addr_sk,
        ws_ext_sales_price as price
    from web_sales
),
wanted as (
    select distinct i_item_id as wanted
    from item
    where i_color in ('slate', 'blanched', 'burnished')
)
select i.i_item_id, sum(s.price) as sales
from sales s
join date_dim d on d.d_date_sk = s.date_sk and d.d_year = 2001 and d.d_moy = 2
join customer_address ca on ca.ca_address_sk = s.addr_sk and ca.ca_gmt_offset = -5
join item i on i.i_item_sk = s.item_sk
join wanted w on w.wanted = i.i_item_id
group by i.i_item_id
order by sales nulls first, i.i_item_id nulls first
limit 100;

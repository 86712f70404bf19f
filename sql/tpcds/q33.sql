-- Asks what manufacturers of electronics sold in May 1998 to eastern customers over all channels.
-- Shuffles the sales of all channels by item and address to join them, and by manufacturer for the sums.
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
    select distinct i_manufact_id as wanted
    from item
    where i_category = 'Electronics'
)
select i.i_manufact_id, sum(s.price) as sales
from sales s
join date_dim d on d.d_date_sk = s.date_sk and d.d_year = 1998 and d.d_moy = 5
join customer_address ca on ca.ca_address_sk = s.addr_sk and ca.ca_gmt_offset = -5
join item i on i.i_item_sk = s.item_sk
join wanted w on w.wanted = i.i_manufact_id
group by i.i_manufact_id
order by sales nulls first
limit 100;

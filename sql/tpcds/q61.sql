-- Asks what part of the jewelry sales of eastern stores to eastern customers in November 1998 came with a promotion.
-- Shuffles the sales by customer to join customers and addresses; the rest are sums of one row.
with jewelry as (
    select ss.ss_ext_sales_price as price, ss.ss_promo_sk as promo_sk
    from store_sales ss
    join store s on s.s_store_sk = ss.ss_store_sk and s.s_gmt_offset = -5
    join date_dim d on d.d_date_sk = ss.ss_sold_date_sk and d.d_year = 1998 and d.d_moy = 11
    join customer c on c.c_customer_sk = ss.ss_customer_sk
    join customer_address ca on ca.ca_address_sk = c.c_current_addr_sk and ca.ca_gmt_offset = -5
    join item i on i.i_item_sk = ss.ss_item_sk and i.i_category = 'Jewelry'
),
promoted as (
    select sum(j.price) as sales
    from jewelry j
    join promotion p on p.p_promo_sk = j.promo_sk
    where p.p_channel_dmail = 'Y' or p.p_channel_email = 'Y' or p.p_channel_tv = 'Y'
),
everything as (
    select sum(price) as sales from jewelry
)
select
    p.sales as promoted_sales,
    e.sales as all_sales,
    cast(p.sales as double) / cast(e.sales as double) * 100 as percent
from promoted p
cross join everything e
order by promoted_sales, all_sales
limit 100;

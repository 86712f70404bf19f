-- Asks which brands one manager sells best, in November 1998, to customers who live elsewhere than the store is.
-- Shuffles the sales by customer to join customers and addresses, and the rest by brand and manufacturer.
select
    i.i_brand_id,
    i.i_brand,
    i.i_manufact_id,
    i.i_manufact,
    sum(ss.ss_ext_sales_price) as sales
from store_sales ss
join date_dim d on d.d_date_sk = ss.ss_sold_date_sk
join item i on i.i_item_sk = ss.ss_item_sk
join customer c on c.c_customer_sk = ss.ss_customer_sk
join customer_address ca on ca.ca_address_sk = c.c_current_addr_sk
join store s
    on s.s_store_sk = ss.ss_store_sk
    and substr(s.s_zip, 1, 5) <> substr(ca.ca_zip, 1, 5)
where i.i_manager_id = 8
    and d.d_moy = 11
    and d.d_year = 1998
group by i.i_brand_id, i.i_brand, i.i_manufact_id, i.i_manufact
order by
    sales desc,
    i.i_brand nulls first,
    i.i_brand_id nulls first,
    i.i_manufact_id nulls first,
    i.i_manufact nulls first
limit 100;

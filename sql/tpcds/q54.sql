-- Asks how many customers of maternity wear spent how much in stores near them in the following three months, in steps of fifty.
-- Shuffles the purchases of all customers by customer: to make the buyers distinct, to join them, and for the sums.
with remote_sales as (
    select cs_sold_date_sk as date_sk, cs_bill_customer_sk as customer_sk, cs_item_sk as item_sk
    from catalog_sales
    union all
    select ws_sold_date_sk, ws_bill_customer_sk, ws_item_sk
    from web_sales
),
buyers as (
    select distinct c.c_customer_sk as customer_sk, c.c_current_addr_sk as addr_sk
    from remote_sales r
    join item i
        on i.i_item_sk = r.item_sk
        and i.i_category = 'Women'
        and i.i_class = 'maternity'
    join date_dim d on d.d_date_sk = r.date_sk and d.d_moy = 12 and d.d_year = 1998
    join customer c on c.c_customer_sk = r.customer_sk
),
one_month as (
    select distinct d_month_seq as month_seq
    from date_dim
    where d_year = 1998 and d_moy = 12
),
spending as (
    select b.customer_sk, sum(ss.ss_ext_sales_price) as amount
    from buyers b
    join store_sales ss on ss.ss_customer_sk = b.customer_sk
    join customer_address ca on ca.ca_address_sk = b.addr_sk
    join store s on s.s_county = ca.ca_county and s.s_state = ca.ca_state
    join date_dim d on d.d_date_sk = ss.ss_sold_date_sk
    join one_month m on d.d_month_seq between m.month_seq + 1 and m.month_seq + 3
    group by b.customer_sk
),
segments as (
    select cast(round(amount / 50) as int) as segment
    from spending
)
select segment, count(*) as customers, segment * 50 as segment_base
from segments
group by segment
order by segment nulls first, customers nulls first
limit 100;

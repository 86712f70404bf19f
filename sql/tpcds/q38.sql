-- Asks how many times someone bought on one day through all three channels, by name, in a year.
-- Shuffles each channel's purchases with the customers by name and date to make them distinct and to compare them.
with days as (
    select d_date_sk as date_sk, d_date as day
    from date_dim
    where d_month_seq between 1200 and 1211
),
matching as (
    select distinct c.c_last_name, c.c_first_name, d.day
    from store_sales ss
    join days d on d.date_sk = ss.ss_sold_date_sk
    join customer c on c.c_customer_sk = ss.ss_customer_sk
    intersect
    select distinct c.c_last_name, c.c_first_name, d.day
    from catalog_sales cs
    join days d on d.date_sk = cs.cs_sold_date_sk
    join customer c on c.c_customer_sk = cs.cs_bill_customer_sk
    intersect
    select distinct c.c_last_name, c.c_first_name, d.day
    from web_sales ws
    join days d on d.date_sk = ws.ws_sold_date_sk
    join customer c on c.c_customer_sk = ws.ws_bill_customer_sk
)
select count(*) as matches
from matching
limit 100;

-- Asks what the best store customers paid in February 2000, by catalog and web, for items that stores sell often.
-- Shuffles store_sales by item and day to find these items, and by customer to find the best of them.
with years as (
    select d_date_sk as date_sk, d_date as day
    from date_dim
    where d_year in (2000, 2001, 2002, 2003)
),
frequent_items as (
    select ss.ss_item_sk as item_sk
    from store_sales ss
    join years y on y.date_sk = ss.ss_sold_date_sk
    join item i on i.i_item_sk = ss.ss_item_sk
    group by substr(i.i_item_desc, 1, 30), ss.ss_item_sk, y.day
    having count(*) > 4
),
customer_sales as (
    select c.c_customer_sk as customer_sk, sum(ss.ss_quantity * ss.ss_sales_price) as sales
    from store_sales ss
    join customer c on c.c_customer_sk = ss.ss_customer_sk
    join years y on y.date_sk = ss.ss_sold_date_sk
    group by c.c_customer_sk
),
best_customers as (
    select c.c_customer_sk as customer_sk
    from store_sales ss
    join customer c on c.c_customer_sk = ss.ss_customer_sk
    group by c.c_customer_sk
    having sum(ss.ss_quantity * ss.ss_sales_price)
        > (select 0.5 * max(sales) from customer_sales)
),
remote_sales as (
    select
        cs_bill_customer_sk as customer_sk,
        cs_item_sk as item_sk,
        cs_sold_date_sk as date_sk,
        cs_quantity * cs_list_price as amount,
        'catalog' as channel
    from catalog_sales
    union all
    select
        ws_bill_customer_sk,
        ws_item_sk,
        ws_sold_date_sk,
        ws_quantity * ws_list_price,
        'web'
    from web_sales
)
select c.c_last_name, c.c_first_name, sum(r.amount) as sales
from remote_sales r
join date_dim d on d.d_date_sk = r.date_sk and d.d_year = 2000 and d.d_moy = 2
join customer c on c.c_customer_sk = r.customer_sk
where r.item_sk in (select item_sk from frequent_items)
    and r.customer_sk in (select customer_sk from best_customers)
group by r.channel, c.c_last_name, c.c_first_name
order by c.c_last_name nulls first, c.c_first_name nulls first, sales nulls first
limit 100;

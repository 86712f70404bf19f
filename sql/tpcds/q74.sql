-- Asks which customers raised what they pay by web from 2001 to 2002 more than what they pay in stores.
-- Shuffles both sales tables with the customers by customer, then the yearly sums by customer id.
with spending as (
    select
        'store' as channel,
        ss_customer_sk as customer_sk,
        ss_sold_date_sk as sold_date_sk,
        ss_net_paid as amount
    from store_sales
    union all
    select 'web', ws_bill_customer_sk, ws_sold_date_sk, ws_net_paid
    from web_sales
),
yearly as (
    select
        s.channel,
        d.d_year as sale_year,
        c.c_customer_id as customer_id,
        c.c_first_name as first_name,
        c.c_last_name as last_name,
        sum(s.amount) as amount
    from spending s
    join customer c on c.c_customer_sk = s.customer_sk
    join date_dim d on d.d_date_sk = s.sold_date_sk
    where d.d_year in (2001, 2002)
    group by s.channel, d.d_year, c.c_customer_id, c.c_first_name, c.c_last_name
)
select s2.customer_id, s2.first_name, s2.last_name
from yearly s1
join yearly s2 on s2.customer_id = s1.customer_id
join yearly w1 on w1.customer_id = s1.customer_id
join yearly w2 on w2.customer_id = s1.customer_id
where s1.channel = 'store' and s1.sale_year = 2001 and s1.amount > 0
    and s2.channel = 'store' and s2.sale_year = 2002
    and w1.channel = 'web' and w1.sale_year = 2001 and w1.amount > 0
    and w2.channel = 'web' and w2.sale_year = 2002
    and cast(w2.amount as double) / cast(w1.amount as double)
        > cast(s2.amount as double) / cast(s1.amount as double)
order by s2.customer_id nulls first, s2.first_name nulls first, s2.last_name nulls first
limit 100;

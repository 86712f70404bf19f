-- Asks how customers' store tickets grow: each ticket beside the one before it and the running total of its customer.
-- Shuffles store_sales by ticket to add the tickets up, and the tickets by customer to sort and number them.
with tickets as (
    select
        ss_customer_sk as customer_sk,
        ss_ticket_number as ticket_number,
        min(ss_sold_date_sk) as sold_date_sk,
        count(*) as sales,
        sum(ss_net_paid) as paid
    from store_sales
    where ss_customer_sk is not null
    group by ss_customer_sk, ss_ticket_number
),
ranked as (
    select
        customer_sk,
        sales,
        paid,
        row_number() over by_time as position,
        lag(paid) over by_time as paid_before,
        sum(paid) over by_time as paid_so_far
    from tickets
    window by_time as (partition by customer_sk order by sold_date_sk, ticket_number)
)
select
    position,
    count(*) as customers,
    sum(sales) as sales,
    sum(paid) as paid,
    sum(paid - paid_before) as growth,
    max(paid_so_far) as largest_total,
    sum(case when paid > paid_before then 1 else 0 end) as grew
from ranked
group by position
order by position;

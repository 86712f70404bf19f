-- Asks which customers gave back, in some Tennessee store in 2000, over 1.2 times what the customers of that store give back on average.
-- Shuffles store_returns by customer and store for the sums, then by store for the averages.
with given_back as (
    select
        sr.sr_customer_sk as customer_sk,
        sr.sr_store_sk as store_sk,
        sum(sr.sr_return_amt) as amount
    from store_returns sr
    join date_dim d on d.d_date_sk = sr.sr_returned_date_sk
    where d.d_year = 2000
    group by sr.sr_customer_sk, sr.sr_store_sk
),
typical as (
    select store_sk, 1.2 * avg(amount) as high_amount
    from given_back
    group by store_sk
)
select c.c_customer_id
from given_back g
join typical t on t.store_sk = g.store_sk and g.amount > t.high_amount
join store s on s.s_store_sk = g.store_sk
join customer c on c.c_customer_sk = g.customer_sk
where s.s_state = 'TN'
order by c.c_customer_id
limit 100;

-- Asks which customers from Georgia gave back over 1.2 times what web customers give back on average in the state of return, in 2002.
-- Shuffles web_returns by customer and state for the sums, then by state for the averages.
with given_back as (
    select
        wr.wr_returning_customer_sk as customer_sk,
        ca.ca_state as state,
        sum(wr.wr_return_amt) as amount
    from web_returns wr
    join date_dim d on d.d_date_sk = wr.wr_returned_date_sk
    join customer_address ca on ca.ca_address_sk = wr.wr_returning_addr_sk
    where d.d_year = 2002
    group by wr.wr_returning_customer_sk, ca.ca_state
),
typical as (
    select state, 1.2 * avg(amount) as high_amount
    from given_back
    group by state
)
select
    c.c_customer_id,
    c.c_salutation,
    c.c_first_name,
    c.c_last_name,
    c.c_preferred_cust_flag,
    c.c_birth_day,
    c.c_birth_month,
    c.c_birth_year,
    c.c_birth_country,
    c.c_login,
    c.c_email_address,
    c.c_last_review_date_sk,
    g.amount
from given_back g
join typical t on t.state = g.state and g.amount > t.high_amount
join customer c on c.c_customer_sk = g.customer_sk
join customer_address home on home.ca_address_sk = c.c_current_addr_sk
where home.ca_state = 'GA'
order by
    c.c_customer_id nulls first,
    c.c_salutation nulls first,
    c.c_first_name nulls first,
    c.c_last_name nulls first,
    c.c_preferred_cust_flag nulls first,
    c.c_birth_day nulls first,
    c.c_birth_month nulls first,
    c.c_birth_year nulls first,
    c.c_birth_country nulls first,
    c.c_login nulls first,
    c.c_email_address nulls first,
    c.c_last_review_date_sk nulls first,
    g.amount nulls first
limit 100;

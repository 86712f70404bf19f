-- Asks which customers from Georgia gave back over 1.2 times what catalog customers give back on average in the state of return, in 2000.
-- Shuffles catalog_returns by customer and state for the sums, then by state for the averages.
with given_back as (
    select
        cr.cr_returning_customer_sk as customer_sk,
        ca.ca_state as state,
        sum(cr.cr_return_amt_inc_tax) as amount
    from catalog_returns cr
    join date_dim d on d.d_date_sk = cr.cr_returned_date_sk
    join customer_address ca on ca.ca_address_sk = cr.cr_returning_addr_sk
    where d.d_year = 2000
    group by cr.cr_returning_customer_sk, ca.ca_state
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
    home.ca_street_number,
    home.ca_street_name,
    home.ca_street_type,
    home.ca_suite_number,
    home.ca_city,
    home.ca_county,
    home.ca_state,
    home.ca_zip,
    home.ca_country,
    home.ca_gmt_offset,
    home.ca_location_type,
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
    home.ca_street_number nulls first,
    home.ca_street_name nulls first,
    home.ca_street_type nulls first,
    home.ca_suite_number nulls first,
    home.ca_city nulls first,
    home.ca_county nulls first,
    home.ca_state nulls first,
    home.ca_zip nulls first,
    home.ca_country nulls first,
    home.ca_gmt_offset nulls first,
    home.ca_location_type nulls first,
    g.amount nulls first
limit 100;

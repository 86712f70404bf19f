-- Asks for the demographics of store customers who also bought by web or catalog in 2002, with statistics of their dependents.
-- Shuffles the customers of all three channels by customer, and those who are left by state and demographics.
with before_winter as (
    select d_date_sk as date_sk
    from date_dim
    where d_year = 2002 and d_qoy < 4
),
store_customers as (
    select distinct ss.ss_customer_sk as customer_sk
    from store_sales ss
    join before_winter b on b.date_sk = ss.ss_sold_date_sk
),
other_customers as (
    select ws.ws_bill_customer_sk as customer_sk
    from web_sales ws
    join before_winter b on b.date_sk = ws.ws_sold_date_sk
    union
    select cs.cs_ship_customer_sk
    from catalog_sales cs
    join before_winter b on b.date_sk = cs.cs_sold_date_sk
)
select
    ca.ca_state,
    cd.cd_gender,
    cd.cd_marital_status,
    cd.cd_dep_count,
    count(*) as people_1,
    min(cd.cd_dep_count) as least_dependents,
    max(cd.cd_dep_count) as most_dependents,
    avg(cd.cd_dep_count) as average_dependents,
    cd.cd_dep_employed_count,
    count(*) as people_2,
    min(cd.cd_dep_employed_count) as least_employed,
    max(cd.cd_dep_employed_count) as most_employed,
    avg(cd.cd_dep_employed_count) as average_employed,
    cd.cd_dep_college_count,
    count(*) as people_3,
    min(cd.cd_dep_college_count) as least_college,
    max(cd.cd_dep_college_count) as most_college,
    avg(cd.cd_dep_college_count) as average_college
from customer c
join customer_address ca on ca.ca_address_sk = c.c_current_addr_sk
join customer_demographics cd on cd.cd_demo_sk = c.c_current_cdemo_sk
join store_customers s on s.customer_sk = c.c_customer_sk
join other_customers o on o.customer_sk = c.c_customer_sk
group by
    ca.ca_state,
    cd.cd_gender,
    cd.cd_marital_status,
    cd.cd_dep_count,
    cd.cd_dep_employed_count,
    cd.cd_dep_college_count
order by
    ca.ca_state nulls first,
    cd.cd_gender nulls first,
    cd.cd_marital_status nulls first,
    cd.cd_dep_count nulls first,
    cd.cd_dep_employed_count nulls first,
    cd.cd_dep_college_count nulls first
limit 100;

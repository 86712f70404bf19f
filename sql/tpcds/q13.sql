-- Asks for averages of the store sales of 2001 to three kinds of households, each with a range of price, and in states with a range of profit.
-- Shuffles nothing but the partial sums of the one result row.
select
    avg(ss.ss_quantity) as quantity,
    avg(ss.ss_ext_sales_price) as sales_price,
    avg(ss.ss_ext_wholesale_cost) as wholesale_cost,
    sum(ss.ss_ext_wholesale_cost) as wholesale_sum
from store_sales ss
join store s on s.s_store_sk = ss.ss_store_sk
join date_dim d on d.d_date_sk = ss.ss_sold_date_sk and d.d_year = 2001
join customer_demographics cd on cd.cd_demo_sk = ss.ss_cdemo_sk
join household_demographics hd on hd.hd_demo_sk = ss.ss_hdemo_sk
join customer_address ca
    on ca.ca_address_sk = ss.ss_addr_sk
    and ca.ca_country = 'United States'
where (
        (
            cd.cd_marital_status = 'M'
            and cd.cd_education_status = 'Advanced Degree'
            and ss.ss_sales_price between 100 and 150
            and hd.hd_dep_count = 3
        )
        or (
            cd.cd_marital_status = 'S'
            and cd.cd_education_status = 'College'
            and ss.ss_sales_price between 50 and 100
            and hd.hd_dep_count = 1
        )
        or (
            cd.cd_marital_status = 'W'
            and cd.cd_education_status = '2 yr Degree'
            and ss.ss_sales_price between 150 and 200
            and hd.hd_dep_count = 1
        )
    )
    and (
        (ca.ca_state in ('TX', 'OH') and ss.ss_net_profit between 100 and 200)
        or (ca.ca_state in ('OR', 'NM', 'KY') and ss.ss_net_profit between 150 and 300)
        or (ca.ca_state in ('VA', 'TX', 'MS') and ss.ss_net_profit between 50 and 250)
    );

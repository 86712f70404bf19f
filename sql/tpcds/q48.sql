-- Asks how many units stores sold in 2000 to three kinds of buyers, each with a range of price, and in states with a range of profit.
-- Shuffles nothing but the partial sums of the one result row.
select sum(ss.ss_quantity) as units
from store_sales ss
join store s on s.s_store_sk = ss.ss_store_sk
join date_dim d on d.d_date_sk = ss.ss_sold_date_sk and d.d_year = 2000
join customer_demographics cd on cd.cd_demo_sk = ss.ss_cdemo_sk
join customer_address ca
    on ca.ca_address_sk = ss.ss_addr_sk
    and ca.ca_country = 'United States'
where (
        (
            cd.cd_marital_status = 'M'
            and cd.cd_education_status = '4 yr Degree'
            and ss.ss_sales_price between 100 and 150
        )
        or (
            cd.cd_marital_status = 'D'
            and cd.cd_education_status = '2 yr Degree'
            and ss.ss_sales_price between 50 and 100
        )
        or (
            cd.cd_marital_status = 'S'
            and cd.cd_education_status = 'College'
            and ss.ss_sales_price between 150 and 200
        )
    )
    and (
        (ca.ca_state in ('CO', 'OH', 'TX') and ss.ss_net_profit between 0 and 2000)
        or (ca.ca_state in ('OR', 'MN', 'KY') and ss.ss_net_profit between 150 and 3000)
        or (ca.ca_state in ('VA', 'CA', 'MS') and ss.ss_net_profit between 50 and 25000)
    );

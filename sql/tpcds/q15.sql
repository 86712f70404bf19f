-- Asks what catalog customers of certain zip codes or states, or with expensive purchases, bought per zip code in the spring of 2001.
-- Shuffles catalog_sales by customer to join them, and the result by zip code.
select ca.ca_zip, sum(cs.cs_sales_price) as sales
from catalog_sales cs
join customer c on c.c_customer_sk = cs.cs_bill_customer_sk
join customer_address ca on ca.ca_address_sk = c.c_current_addr_sk
join date_dim d on d.d_date_sk = cs.cs_sold_date_sk
where d.d_qoy = 2
    and d.d_year = 2001
    and (
        substr(ca.ca_zip, 1, 5) in (
            '85669', '86197', '88274', '83405', '86475', '85392', '85460', '80348', '81792'
        )
        or ca.ca_state in ('CA', 'WA', 'GA')
        or cs.cs_sales_price > 500
    )
group by ca.ca_zip
order by ca.ca_zip nulls first
limit 100;

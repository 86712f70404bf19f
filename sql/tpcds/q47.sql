-- Asks in which month of 1999 a brand sold far from its average in a store, with the month before and after.
-- Shuffles the joined sales by brand, place and month, then the months by brand and place for the windows over them.
with months as (
    select
        i.i_category as category,
        i.i_brand as brand,
        place.s_store_name as store_name,
        place.s_company_name as company,
        d.d_year as sale_year,
        d.d_moy as moy,
        sum(s.ss_sales_price) as sales
    from store_sales s
    join item i on i.i_item_sk = s.ss_item_sk
    join date_dim d on d.d_date_sk = s.ss_sold_date_sk
    join store place on place.s_store_sk = s.ss_store_sk
    where d.d_year = 1999
        or (d.d_year = 1998 and d.d_moy = 12)
        or (d.d_year = 2000 and d.d_moy = 1)
    group by i.i_category, i.i_brand, place.s_store_name, place.s_company_name, d.d_year, d.d_moy
),
compared as (
    select
        category,
        brand,
        store_name,
        company,
        sale_year,
        moy,
        avg(sales) over (partition by category, brand, store_name, company, sale_year) as average,
        sales,
        lag(sales) over (
            partition by category, brand, store_name, company
            order by sale_year, moy
        ) as before,
        lead(sales) over (
            partition by category, brand, store_name, company
            order by sale_year, moy
        ) as after
    from months
)
select category, brand, store_name, company, sale_year, moy, average, sales, before, after
from compared
where sale_year = 1999
    and average > 0
    and before is not null
    and after is not null
    and abs(sales - average) > 0.1 * abs(average)
order by sales - average, moy, category, brand, store_name, company
limit 100;

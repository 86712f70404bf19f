-- Asks in which month of 1999 a class of a brand sold over a tenth away from its average in a store.
-- Shuffles the joined sales by class, brand, store and month, then the months without the class for the average beside each.
with months as (
    select
        i.i_category as category,
        i.i_class as class,
        i.i_brand as brand,
        s.s_store_name as store_name,
        s.s_company_name as company,
        d.d_moy as moy,
        sum(ss.ss_sales_price) as sales
    from store_sales ss
    join item i on i.i_item_sk = ss.ss_item_sk
    join date_dim d on d.d_date_sk = ss.ss_sold_date_sk and d.d_year = 1999
    join store s on s.s_store_sk = ss.ss_store_sk
    where (
            i.i_category in ('Books', 'Electronics', 'Sports')
            and i.i_class in ('computers', 'stereo', 'football')
        )
        or (
            i.i_category in ('Men', 'Jewelry', 'Women')
            and i.i_class in ('shirts', 'birdal', 'dresses')
        )
    group by i.i_category, i.i_class, i.i_brand, s.s_store_name, s.s_company_name, d.d_moy
),
compared as (
    select *, avg(sales) over (partition by category, brand, store_name, company) as average
    from months
)
select category, class, brand, store_name, company, moy, sales, average
from compared
where average <> 0
    and abs(sales - average) > 0.1 * abs(average)
order by sales - average, store_name, category, class, brand, moy
limit 100;

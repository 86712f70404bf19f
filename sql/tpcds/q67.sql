-- Asks for the hundred best sums of store sales in each category, at every level from one product in one store and month upwards.
-- Shuffles the joined sales, nine rows for each by the rollup, by its eight columns, then the sums by category to rank them.
with sums as (
    select
        i_category,
        i_class,
        i_brand,
        i_product_name,
        d_year,
        d_qoy,
        d_moy,
        s_store_id,
        sum(coalesce(ss.ss_sales_price * ss.ss_quantity, 0)) as sales
    from store_sales ss
    join date_dim d on d.d_date_sk = ss.ss_sold_date_sk and d.d_month_seq between 1200 and 1211
    join store s on s.s_store_sk = ss.ss_store_sk
    join item i on i.i_item_sk = ss.ss_item_sk
    group by rollup (
        i_category, i_class, i_brand, i_product_name,
        d_year, d_qoy, d_moy, s_store_id
    )
),
ranked as (
    select *, rank() over (partition by i_category order by sales desc) as position
    from sums
)
select *
from ranked
where position <= 100
order by
    i_category nulls first,
    i_class nulls first,
    i_brand nulls first,
    i_product_name nulls first,
    d_year nulls first,
    d_qoy nulls first,
    d_moy nulls first,
    s_store_id nulls first,
    sales nulls first,
    position nulls first
limit 100;

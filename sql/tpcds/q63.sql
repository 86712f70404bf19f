-- Asks which of a manager's monthly store sales of certain items were over a tenth away from their average in a year.
-- Shuffles the joined sales by owner and period, then the periods by owner for the average beside each.
with periods as (
    select
        i.i_manager_id as owner,
        sum(ss.ss_sales_price) as sales,
        avg(sum(ss.ss_sales_price)) over (partition by i.i_manager_id) as average
    from store_sales ss
    join item i on i.i_item_sk = ss.ss_item_sk
    join date_dim d on d.d_date_sk = ss.ss_sold_date_sk and d.d_month_seq between 1200 and 1211
    join store s on s.s_store_sk = ss.ss_store_sk
    where (
            i.i_category in ('Books', 'Children', 'Electronics')
            and i.i_class in ('personal', 'portable', 'reference', 'self-help')
            and i.i_brand in (
                'scholaramalgamalg #14', 'scholaramalgamalg #7',
                'exportiunivamalg #9', 'scholaramalgamalg #9'
            )
        )
        or (
            i.i_category in ('Women', 'Music', 'Men')
            and i.i_class in ('accessories', 'classical', 'fragrances', 'pants')
            and i.i_brand in (
                'amalgimporto #1', 'edu packscholar #1', 'exportiimporto #1', 'importoamalg #1'
            )
        )
    group by i.i_manager_id, d.d_moy
)
select owner, sales, average
from periods
where average > 0
    and abs(sales - average) > 0.1 * abs(average)
order by owner nulls first, average nulls first, sales nulls first
limit 100;

-- Asks how much discount one manufacturer's items had in catalog sales that gave over 1.3 times the average discount of their item.
-- Shuffles the sales of ninety days by item for the averages, and again to join them.
with window_sales as (
    select s.cs_item_sk as item_sk, s.cs_ext_discount_amt as discount
    from catalog_sales s
    join date_dim d on d.d_date_sk = s.cs_sold_date_sk
    where d.d_date between date '2000-01-27' and date '2000-01-27' + interval '90' day
),
typical as (
    select item_sk, 1.3 * avg(discount) as high_discount
    from window_sales
    group by item_sk
)
select sum(w.discount) as excess_discount
from window_sales w
join item i on i.i_item_sk = w.item_sk and i.i_manufact_id = 977
join typical t on t.item_sk = w.item_sk and w.discount > t.high_discount
limit 100;

-- Asks how many of each product a warehouse holds on average in a year, with subtotals by brand, class and category.
-- Shuffles the counts of inventory, five rows for each by the rollup, by product, brand, class and category.
select
    i.i_product_name,
    i.i_brand,
    i.i_class,
    i.i_category,
    avg(inv.inv_quantity_on_hand) as on_hand
from inventory inv
join date_dim d on d.d_date_sk = inv.inv_date_sk
join item i on i.i_item_sk = inv.inv_item_sk
where d.d_month_seq between 1200 and 1211
group by rollup (i.i_product_name, i.i_brand, i.i_class, i.i_category)
order by
    on_hand nulls first,
    i.i_product_name nulls first,
    i.i_brand nulls first,
    i.i_class nulls first,
    i.i_category nulls first
limit 100;

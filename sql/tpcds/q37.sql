-- Asks which items of four manufacturers that catalog customers bought were in stock, 100 to 500 of them, in sixty days of 2000.
-- Shuffles catalog_sales and the inventory by item to join them, and the items to make them distinct.
select i.i_item_id, i.i_item_desc, i.i_current_price
from item i
join inventory inv
    on inv.inv_item_sk = i.i_item_sk
    and inv.inv_quantity_on_hand between 100 and 500
join date_dim d on d.d_date_sk = inv.inv_date_sk
join catalog_sales s on s.cs_item_sk = i.i_item_sk
where i.i_current_price between 68 and 98
    and i.i_manufact_id in (677, 940, 694, 808)
    and d.d_date between date '2000-02-01' and date '2000-02-01' + interval '60' day
group by i.i_item_id, i.i_item_desc, i.i_current_price
order by i.i_item_id
limit 100;

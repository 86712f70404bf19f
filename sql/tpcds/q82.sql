-- Asks which items of four manufacturers that store customers bought were in stock, 100 to 500 of them, in sixty days of 2000.
-- Shuffles store_sales and the inventory by item to join them, and the items to make them distinct.
select i.i_item_id, i.i_item_desc, i.i_current_price
from item i
join inventory inv
    on inv.inv_item_sk = i.i_item_sk
    and inv.inv_quantity_on_hand between 100 and 500
join date_dim d on d.d_date_sk = inv.inv_date_sk
join store_sales s on s.ss_item_sk = i.i_item_sk
where i.i_current_price between 62 and 92
    and i.i_manufact_id in (129, 270, 821, 423)
    and d.d_date between date '2000-05-25' and date '2000-05-25' + interval '60' day
group by i.i_item_id, i.i_item_desc, i.i_current_price
order by i.i_item_id
limit 100;

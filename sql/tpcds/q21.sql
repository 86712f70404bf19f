-- Asks where the stock of mid-priced items changed by less than half around 11 March 2000, warehouse by warehouse.
-- Shuffles the weekly counts of sixty days by warehouse and item.
with stock as (
    select
        w.w_warehouse_name as warehouse,
        i.i_item_id as item_id,
        sum(case when d.d_date < date '2000-03-11' then inv.inv_quantity_on_hand else 0 end)
            as before,
        sum(case when d.d_date >= date '2000-03-11' then inv.inv_quantity_on_hand else 0 end)
            as after
    from inventory inv
    join warehouse w on w.w_warehouse_sk = inv.inv_warehouse_sk
    join item i on i.i_item_sk = inv.inv_item_sk
    join date_dim d on d.d_date_sk = inv.inv_date_sk
    where i.i_current_price between 0.99 and 1.49
        and d.d_date between date '2000-03-11' - interval '30' day
            and date '2000-03-11' + interval '30' day
    group by w.w_warehouse_name, i.i_item_id
)
select warehouse, item_id, before, after
from stock
where before > 0
    and cast(after as double) / before between 2.0 / 3.0 and 3.0 / 2.0
order by warehouse nulls first, item_id nulls first
limit 100;

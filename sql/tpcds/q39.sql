-- Asks which items' stock in a warehouse varied much both in January and in February 2001.
-- Shuffles the counts of the inventory by warehouse, item and month, then the months by warehouse and item.
with months as (
    select
        w.w_warehouse_sk as warehouse_sk,
        i.i_item_sk as item_sk,
        d.d_moy as moy,
        avg(inv.inv_quantity_on_hand) as average,
        stddev_samp(inv.inv_quantity_on_hand) / avg(inv.inv_quantity_on_hand) as variation
    from inventory inv
    join item i on i.i_item_sk = inv.inv_item_sk
    join warehouse w on w.w_warehouse_sk = inv.inv_warehouse_sk
    join date_dim d on d.d_date_sk = inv.inv_date_sk and d.d_year = 2001 and d.d_moy in (1, 2)
    group by w.w_warehouse_name, w.w_warehouse_sk, i.i_item_sk, d.d_moy
    having avg(inv.inv_quantity_on_hand) > 0
)
select
    january.warehouse_sk,
    january.item_sk,
    january.moy,
    january.average,
    january.variation,
    february.warehouse_sk,
    february.item_sk,
    february.moy,
    february.average,
    february.variation
from months january
join months february
    on february.item_sk = january.item_sk
    and february.warehouse_sk = january.warehouse_sk
    and february.moy = 2
where january.moy = 1
    and january.variation > 1
    and february.variation > 1
order by
    january.warehouse_sk,
    january.item_sk,
    january.moy,
    january.average,
    january.variation,
    february.moy,
    february.average,
    february.variation;

-- Asks how the returns of items in three weeks of 2000 are spread over stores, catalog and web.
-- Shuffles the returns of each channel by item id, for the sums and for the joins of the three.
with weeks as (
    select distinct d.d_date_sk as date_sk
    from date_dim d
    join date_dim day on day.d_week_seq = d.d_week_seq
    where day.d_date in (date '2000-06-30', date '2000-09-27', date '2000-11-17')
),
store as (
    select i.i_item_id as item_id, sum(r.sr_return_quantity) as units
    from store_returns r
    join item i on i.i_item_sk = r.sr_item_sk
    join weeks w on w.date_sk = r.sr_returned_date_sk
    group by i.i_item_id
),
catalog as (
    select i.i_item_id as item_id, sum(r.cr_return_quantity) as units
    from catalog_returns r
    join item i on i.i_item_sk = r.cr_item_sk
    join weeks w on w.date_sk = r.cr_returned_date_sk
    group by i.i_item_id
),
web as (
    select i.i_item_id as item_id, sum(r.wr_return_quantity) as units
    from web_returns r
    join item i on i.i_item_sk = r.wr_item_sk
    join weeks w on w.date_sk = r.wr_returned_date_sk
    group by i.i_item_id
)
select
    s.item_id,
    s.units as store_units,
    cast(s.units as double) / (s.units + c.units + w.units) / 3.0 * 100 as store_share,
    c.units as catalog_units,
    cast(c.units as double) / (s.units + c.units + w.units) / 3.0 * 100 as catalog_share,
    w.units as web_units,
    cast(w.units as double) / (s.units + c.units + w.units) / 3.0 * 100 as web_share,
    (s.units + c.units + w.units) / 3.0 as average
from store s
join catalog c on c.item_id = s.item_id
join web w on w.item_id = s.item_id
order by s.item_id nulls first, store_units nulls first
limit 100;

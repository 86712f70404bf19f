-- Asks how long catalog orders of a year took to be shipped, by warehouse, ship mode and call center.
-- Shuffles the joined sales by the names of the three.
select
    substr(w.w_warehouse_name, 1, 20) as warehouse,
    m.sm_type,
    lower(place.cc_name) as call_center,
    sum(case when s.cs_ship_date_sk - s.cs_sold_date_sk <= 30 then 1 else 0 end) as within_30_days,
    sum(
        case when s.cs_ship_date_sk - s.cs_sold_date_sk > 30
            and s.cs_ship_date_sk - s.cs_sold_date_sk <= 60 then 1 else 0 end
    ) as within_60_days,
    sum(
        case when s.cs_ship_date_sk - s.cs_sold_date_sk > 60
            and s.cs_ship_date_sk - s.cs_sold_date_sk <= 90 then 1 else 0 end
    ) as within_90_days,
    sum(
        case when s.cs_ship_date_sk - s.cs_sold_date_sk > 90
            and s.cs_ship_date_sk - s.cs_sold_date_sk <= 120 then 1 else 0 end
    ) as within_120_days,
    sum(case when s.cs_ship_date_sk - s.cs_sold_date_sk > 120 then 1 else 0 end) as later
from catalog_sales s
join warehouse w on w.w_warehouse_sk = s.cs_warehouse_sk
join ship_mode m on m.sm_ship_mode_sk = s.cs_ship_mode_sk
join call_center place on place.cc_call_center_sk = s.cs_call_center_sk
join date_dim shipped
    on shipped.d_date_sk = s.cs_ship_date_sk
    and shipped.d_month_seq between 1200 and 1211
group by substr(w.w_warehouse_name, 1, 20), m.sm_type, lower(place.cc_name)
order by warehouse nulls first, m.sm_type nulls first, call_center nulls first
limit 100;

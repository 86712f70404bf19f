-- Asks how long web orders of a year took to be shipped, by warehouse, ship mode and web site.
-- Shuffles the joined sales by the names of the three.
select
    substr(w.w_warehouse_name, 1, 20) as warehouse,
    m.sm_type,
    place.web_name,
    sum(case when s.ws_ship_date_sk - s.ws_sold_date_sk <= 30 then 1 else 0 end) as within_30_days,
    sum(
        case when s.ws_ship_date_sk - s.ws_sold_date_sk > 30
            and s.ws_ship_date_sk - s.ws_sold_date_sk <= 60 then 1 else 0 end
    ) as within_60_days,
    sum(
        case when s.ws_ship_date_sk - s.ws_sold_date_sk > 60
            and s.ws_ship_date_sk - s.ws_sold_date_sk <= 90 then 1 else 0 end
    ) as within_90_days,
    sum(
        case when s.ws_ship_date_sk - s.ws_sold_date_sk > 90
            and s.ws_ship_date_sk - s.ws_sold_date_sk <= 120 then 1 else 0 end
    ) as within_120_days,
    sum(case when s.ws_ship_date_sk - s.ws_sold_date_sk > 120 then 1 else 0 end) as later
from web_sales s
join warehouse w on w.w_warehouse_sk = s.ws_warehouse_sk
join ship_mode m on m.sm_ship_mode_sk = s.ws_ship_mode_sk
join web_site place on place.web_site_sk = s.ws_web_site_sk
join date_dim shipped
    on shipped.d_date_sk = s.ws_ship_date_sk
    and shipped.d_month_seq between 1200 and 1211
group by substr(w.w_warehouse_name, 1, 20), m.sm_type, place.web_name
order by warehouse nulls first, m.sm_type nulls first, place.web_name nulls first
limit 100;

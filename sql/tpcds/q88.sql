-- Asks how many sales one store made to certain households in each half hour from half past eight to half past twelve.
-- Shuffles nothing but the partial counts of the one result row.
select
    count(case when t.t_hour = 8 and t.t_minute >= 30 then 1 end) as from_08_30,
    count(case when t.t_hour = 9 and t.t_minute < 30 then 1 end) as from_09_00,
    count(case when t.t_hour = 9 and t.t_minute >= 30 then 1 end) as from_09_30,
    count(case when t.t_hour = 10 and t.t_minute < 30 then 1 end) as from_10_00,
    count(case when t.t_hour = 10 and t.t_minute >= 30 then 1 end) as from_10_30,
    count(case when t.t_hour = 11 and t.t_minute < 30 then 1 end) as from_11_00,
    count(case when t.t_hour = 11 and t.t_minute >= 30 then 1 end) as from_11_30,
    count(case when t.t_hour = 12 and t.t_minute < 30 then 1 end) as from_12_00
from store_sales ss
join time_dim t on t.t_time_sk = ss.ss_sold_time_sk and t.t_hour between 8 and 12
join household_demographics hd on hd.hd_demo_sk = ss.ss_hdemo_sk
join store s on s.s_store_sk = ss.ss_store_sk and s.s_store_name = 'ese'
where (hd.hd_dep_count = 4 and hd.hd_vehicle_count <= 6)
    or (hd.hd_dep_count = 2 and hd.hd_vehicle_count <= 4)
    or (hd.hd_dep_count = 0 and hd.hd_vehicle_count <= 2);

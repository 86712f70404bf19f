-- Asks how many sales one store made to households with seven dependents in the last half hour before nine in the evening.
-- Shuffles nothing but the partial counts of the one result row.
select count(*) as sales
from store_sales ss
join household_demographics hd on hd.hd_demo_sk = ss.ss_hdemo_sk and hd.hd_dep_count = 7
join time_dim t on t.t_time_sk = ss.ss_sold_time_sk and t.t_hour = 20 and t.t_minute >= 30
join store s on s.s_store_sk = ss.ss_store_sk and s.s_store_name = 'ese'
limit 100;

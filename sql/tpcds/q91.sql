-- Asks what each call center lost on returns of certain people in November 1998.
-- Shuffles the joined returns by call center and by demographics.
select
    cc.cc_call_center_id,
    cc.cc_name,
    cc.cc_manager,
    sum(cr.cr_net_loss) as loss
from catalog_returns cr
join call_center cc on cc.cc_call_center_sk = cr.cr_call_center_sk
join date_dim d on d.d_date_sk = cr.cr_returned_date_sk and d.d_year = 1998 and d.d_moy = 11
join customer c on c.c_customer_sk = cr.cr_returning_customer_sk
join customer_address ca on ca.ca_address_sk = c.c_current_addr_sk and ca.ca_gmt_offset = -7
join customer_demographics cd on cd.cd_demo_sk = c.c_current_cdemo_sk
join household_demographics hd
    on hd.hd_demo_sk = c.c_current_hdemo_sk
    and hd.hd_buy_potential like 'Unknown%'
where (cd.cd_marital_status = 'M' and cd.cd_education_status = 'Unknown')
    or (cd.cd_marital_status = 'W' and cd.cd_education_status = 'Advanced Degree')
group by
    cc.cc_call_center_id,
    cc.cc_name,
    cc.cc_manager,
    cd.cd_marital_status,
    cd.cd_education_status
order by loss desc;

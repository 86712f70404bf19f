-- Asks which customers, who live near a store but were born abroad, paid well for returned items of one colour there.
-- Shuffles store_sales with store_returns by ticket and item, and the sales by twelve columns of customer, store and item.
with paid as (
    select
        c.c_last_name as last_name,
        c.c_first_name as first_name,
        s.s_store_name as store_name,
        i.i_color as color,
        sum(ss.ss_net_paid) as amount
    from store_sales ss
    join store_returns sr
        on sr.sr_ticket_number = ss.ss_ticket_number
        and sr.sr_item_sk = ss.ss_item_sk
    join store s on s.s_store_sk = ss.ss_store_sk and s.s_market_id = 8
    join item i on i.i_item_sk = ss.ss_item_sk
    join customer c on c.c_customer_sk = ss.ss_customer_sk
    join customer_address ca
        on ca.ca_address_sk = c.c_current_addr_sk
        and ca.ca_zip = s.s_zip
        and c.c_birth_country <> upper(ca.ca_country)
    group by
        c.c_last_name,
        c.c_first_name,
        s.s_store_name,
        ca.ca_state,
        s.s_state,
        i.i_color,
        i.i_current_price,
        i.i_manager_id,
        i.i_units,
        i.i_size
)
select last_name, first_name, store_name, sum(amount) as amount
from paid
where color = 'peach'
group by last_name, first_name, store_name
having sum(amount) > (select 0.05 * avg(amount) from paid)
order by last_name, first_name, store_name;

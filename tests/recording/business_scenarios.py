"""Scenarios of business tools: customers, shops, support, invoices, flights, calendars, accounts of users."""

from typing import Any

from tests.recording.session_recorder import SessionRecorder
from tests.recording.session_spelling import Meant, prose, template
from tests.recording.session_values import CITIES, COMPANIES, PRODUCTS, TOPICS, TROUBLES, Values

DATE_STYLES = ("iso", "iso", "day", "epoch", "epoch_ms", "millis", "offset")
AMOUNT_STYLES = ("cents", "cents", "decimal", "text")


def customer_refund(v: Values) -> SessionRecorder:
    """Finds a customer by e-mail, lists the orders, refunds one and writes a mail."""
    customer = v.person("customer", "cus", phone=v.phone(), plan=v.one(("free", "pro", "team")), active=True, credit=v.one((0, 0, 50, 100)), manager=None)
    orders = [
        v.thing(
            "order",
            id=number,
            customer=customer["id"],
            total=v.cents(),
            currency=v.one(("USD", "EUR")),
            status=v.one(("paid", "paid", "shipped", "open")),
            created=v.instant(-90, -2),
            items=v.count(1, 6),
        )
        for number in v.ids("order", "ord", v.size(1, 7))
    ]
    chosen = v.one(orders)
    money, when = v.style("money", AMOUNT_STYLES), v.style("time", DATE_STYLES)
    asked = v.thing("request", email=customer["email"], reason=f"{v.one(PRODUCTS)} arrived {v.one(('broken', 'late', 'in the wrong color'))}")
    said = {"email": asked["email"], "reason": asked["reason"]}
    r = SessionRecorder(v, said, prose("Please refund the latest order of ", asked["email"], ": ", asked["reason"], "."))
    mail = asked["email"].written(asked["email"].value.upper()) if v.chance(0.08) else asked["email"]
    person = {**customer.some("id", "name", "email", "phone", "plan", "active", "credit", "manager"), "created_at": v.today()}
    if v.chance(0.3):
        r.call("search_customers", {"query": mail, "limit": 10}, {"customers": [person], "total": 1, "has_more": False})
        if v.chance(0.6):
            r.call("get_customer", {"customer_id": customer["id"]}, {**person, "address": v.address(), "tags": v.some(("vip", "b2b", "newsletter"), 0, 2)})
    else:
        r.call("get_customer", {"email": mail}, {**person, "address": v.address()})
    rows = [{**order.some("id", "status", "currency", "items"), "customer_id": order["customer"], "total": order["total"].amount(money)} for order in orders]
    for row, order in zip(rows, orders, strict=True):
        row["created_at"] = order["created"].dated(when)
    owner = customer["id"].text() if isinstance(customer["id"].value, int) and v.chance(0.4) else customer["id"]
    shape = v.style("list of orders", ("orders", "items", "bare"))
    wanted: dict[str, Any] = {"customer_id": owner, "limit": v.one((10, 50))}
    if v.chance(0.4):
        wanted["status"] = "paid"
    r.call("list_orders", wanted, rows if shape == "bare" else {shape: rows, "total": len(rows), "page": 1})
    detail = v.thing("charge", id=v.id("charge", "ch"), brand=v.one(("visa", "amex")))
    if v.chance(0.7):
        lines = [{"sku": f"SKU-{v.count(1000, 9999)}", "title": v.one(PRODUCTS), "quantity": v.count(1, 3), "price": v.cents()} for _ in range(v.count(1, 3))]
        bought = v.thing("lines", all=lines)["all"]
        r.call(
            "get_order",
            {"order_id": chosen["id"]},
            {"order": {**rows[orders.index(chosen)], "lines": bought, "payment": {"charge_id": detail["id"], "brand": detail["brand"]}}},
        )
        charge: Meant | None = detail["id"]
    else:
        charge = None
    refund = v.thing("refund", id=v.id("refund", "re"))
    asked_for: dict[str, Any] = {"order_id": chosen["id"], "amount": chosen["total"].amount(v.one(AMOUNT_STYLES)), "currency": chosen["currency"]}
    if charge is not None:
        asked_for["charge_id"] = charge
        if v.chance(0.3):
            asked_for["lines"] = bought
    asked_for["reason"] = v.one((asked["reason"], "requested_by_customer", v.made("The customer was not satisfied with the goods")))
    r.call("create_refund", asked_for, {"refund": {"id": refund["id"], "status": "pending", "order_id": chosen["id"], "amount": chosen["total"].amount(money)}})
    if v.chance(0.75):
        body = prose(
            *("Dear ", customer["name"], ",\n\nyour order ", chosen["id"], " of "),
            *(chosen["created"].dated(v.one(("words", "us_words", "day"))), " was refunded: ", chosen["total"].amount(v.one(("dollars", "text", "coded")))),
            *(".\nThe reference is ", refund["id"], ".\n\nKind regards"),
        )
        first = customer["name"].written(customer["first_name"].value)
        friendly = prose("Hi ", first, ", we have sent your money back. It takes 5 to 10 days.")
        subject = prose("Refund for order ", chosen["id"])
        r.call("send_email", {"to": customer["email"], "subject": subject, "body": v.one((body, body, friendly))}, {"sent": True, "message_id": v.uuid()})
    if v.chance(0.4):
        r.call("update_order", {"order_id": chosen["id"], "status": "refunded", "notify": False}, {"id": chosen["id"], "status": "refunded"})
    return r


def shop_cart(v: Values) -> SessionRecorder:
    """Finds products, fills a cart, applies a code and checks out."""
    asked = v.thing(
        "request",
        query=v.one(("desk lamp", "wool blanket", "kettle", "bike light")),
        quantity=v.count(1, 4),
        code=f"{v.one(('SPRING', 'HELLO'))}{v.count(5, 25)}",
    )
    said: dict[str, Any] = {"query": asked["query"], "quantity": asked["quantity"]}
    has_code = v.chance(0.5)
    if has_code:
        said["coupon"] = asked["code"]
    r = SessionRecorder(v, said, prose("Buy ", asked["quantity"], " of the cheapest ", asked["query"], " with the code ", asked["code"]))
    money = v.style("money", AMOUNT_STYLES)
    products = [
        v.thing(
            "product",
            id=number,
            title=v.one(PRODUCTS),
            price=v.cents(900, 12_000),
            stock=v.count(0, 120),
            variant=v.id("variant", "var"),
            rating=v.count(30, 50) / 10,
        )
        for number in v.ids("product", "prod", v.size(2, 8))
    ]
    dollars = v.thing("currency", code="USD")["code"]
    found = [
        {
            **product.some("id", "title", "stock", "rating"),
            "price": product["price"].amount(money),
            "currency": dollars,
            "variants": [{"id": product["variant"], "default": True}],
        }
        for product in products
    ]
    r.call(
        "search_products",
        {"query": asked["query"], "sort": "price_asc", "page": 1, "page_size": 20},
        {"results": found, "page": 1, "page_size": 20, "total": len(found)},
    )
    cart = v.thing("cart", id=v.id("cart", "cart"), token=v.hexadecimal(32))
    r.call("create_cart", {"currency": dollars.or_constant()}, {"cart": {**cart.some("id", "token"), "items": [], "currency": dollars, "total": 0}})
    chosen = v.some(products, 1, 2)
    lines = []
    total = 0
    for number, product in enumerate(chosen):
        quantity: Any = asked["quantity"] if number == 0 else 1
        r_line = v.thing("line", id=v.id("line", "li"))
        arguments = {"cart_id": cart["id"], "product_id": product["id"], "quantity": quantity}
        if v.chance(0.5):
            arguments["variant_id"] = product["variant"]
        total += product["price"].value * (asked["quantity"].value if number == 0 else 1)
        lines.append({"line_id": r_line["id"], "product_id": product["id"], "quantity": quantity})
        r.call("add_to_cart", arguments, {"cart_id": cart["id"], "items": list(lines), "subtotal": v.thing("subtotal", value=total)["value"].amount(money)})
    sum_due = v.thing("total", cents=total)["cents"]
    if has_code:
        sum_due = v.thing("total", cents=max(100, total - total // 10))["cents"]
        code = asked["code"].written(asked["code"].value.lower()) if v.chance(0.2) else asked["code"]
        r.call(
            "apply_coupon",
            {"cart_id": cart["id"], "code": code},
            {"cart_id": cart["id"], "discount_percent": 10, "total": sum_due.amount(money), "valid": True},
        )
    address = v.thing("address", **v.address())
    place = address.whole("street", "city", "postal_code", "country")
    r.call("get_profile", {}, {"id": v.id("user", "usr"), "addresses": [{"label": "home", "default": True, "address": place}], "newsletter": False})
    shipping = [v.thing("rate", id=v.id("rate", "rate"), name=name, price=v.cents(300, 2_000), days=days) for name, days in (("standard", 5), ("express", 1))]
    r.call(
        "get_shipping_rates",
        {"cart_id": cart["id"], "address": v.one((place, place, address.some("postal_code", "country")))},
        {"rates": [{**rate.some("id", "name", "days"), "price": rate["price"].amount(money)} for rate in shipping]},
    )
    payment: dict[str, Any] = {"cart_id": cart["id"], "shipping_rate_id": v.one(shipping)["id"], "payment_method": "card", "accept_terms": True}
    if v.chance(0.6):
        payment["shipping_address"] = place
    if has_code and v.chance(0.6):
        payment["expected_total"] = sum_due.amount(v.one(AMOUNT_STYLES))
    order = v.thing("order", id=v.id("order", "ord"), number=v.count(10_000, 99_999))
    r.call("checkout", payment, {"order": {**order.some("id", "number"), "status": "confirmed", "placed_at": v.today()}})
    if v.chance(0.4):
        r.call("track_event", {"event": "purchase", "url": template("https://shop.example/orders/", order["number"], "/thanks"), "value": 1}, {"ok": True})
    return r


def support_ticket(v: Values) -> SessionRecorder:
    """Lists tickets, reads one, answers it, and escalates or closes it."""
    topics = v.some(TOPICS, 3, 8)
    agents = [v.person("agent", "agt", team=v.one(("billing", "platform", "mobile"))) for _ in range(v.count(2, 4))]
    people = [v.person("requester", "usr") for _ in topics]
    tickets = [
        v.thing(
            "ticket",
            id=number,
            subject=f"{topic.capitalize()} {v.one(TROUBLES)}",
            priority=v.one(("low", "normal", "high", "urgent")),
            created=v.instant(-20, -1),
            requester=person["id"],
            email=person["email"],
            name=person["name"],
        )
        for number, topic, person in zip(v.ids("ticket", "tic", len(topics)), topics, people, strict=True)
    ]
    asked = v.thing("request", queue=v.one(("billing", "mobile", "platform")), limit=v.one((5, 10, 20)))
    r = SessionRecorder(v, {"queue": asked["queue"], "max_tickets": asked["limit"]}, prose("Answer the most urgent ticket of the queue ", asked["queue"]))
    when = v.style("time", DATE_STYLES)
    rows = [
        {
            **ticket.some("id", "subject", "priority"),
            "requester_id": ticket["requester"],
            "status": "open",
            "created_at": ticket["created"].dated(when),
            "assignee": None,
        }
        for ticket in tickets
    ]
    r.call(
        "list_tickets",
        {"queue": asked["queue"], "status": "open", "limit": asked["limit"], "sort": "-priority"},
        {"tickets": rows, "count": len(rows), "next": None},
    )
    chosen = tickets[v.count(0, len(tickets) - 1)]
    number = chosen["id"].text() if isinstance(chosen["id"].value, int) and v.chance(0.35) else chosen["id"]
    text = f"Since yesterday the {topics[tickets.index(chosen)]} {v.one(TROUBLES)}. We are on the {v.one(('pro', 'team'))} plan. Can you help?"
    conversation = v.thing("conversation", id=v.id("conversation", "conv"), text=text, body=f"  {text}\n")
    requester = Meant({"id": chosen["requester"], "email": chosen["email"], "name": chosen["name"]}, f"{chosen.meaning}.requester as a whole")
    r.call(
        "get_ticket",
        {"ticket_id": number},
        {
            "ticket": {
                **rows[tickets.index(chosen)],
                "requester": requester,
                "conversation_id": conversation["id"],
                "description": conversation["text"].written(f"  {text}\n"),
            }
        },
    )
    if v.chance(0.5):
        r.call(
            "search_articles",
            {"query": v.made(f"how to fix: {topics[tickets.index(chosen)]} problems after upgrade"), "language": "en", "limit": 3},
            {"articles": [{"id": v.count(100, 999), "title": f"Known problems: {topic}", "score": v.count(10, 99) / 100} for topic in v.some(TOPICS, 1, 3)]},
        )
    who = v.one(agents)
    if v.chance(0.6):
        people_of_team = [{**agent.some("id", "name", "email", "team"), "open_tickets": v.count(0, 12)} for agent in agents]
        team = asked["queue"] if who["team"].value == asked["queue"].value or v.chance(0.3) else v.made(who["team"].value)
        r.call("list_agents", {"team": team, "available": True}, {"agents": people_of_team})
        r.call("assign_ticket", {"ticket_id": number, "assignee_id": who["id"]}, {"id": chosen["id"], "assignee": who["id"], "status": "open"})
    reply = v.one(
        (
            prose("Hello ", chosen["name"], ",\nthank you for your report. We look into ticket ", chosen["id"], " and will be back within 24 hours."),
            v.made("Thank you, this is a known problem; please update the app to the latest version and try again."),
            prose('You wrote: "', conversation["text"], '"\n\nPlease try the steps below.'),
        )
    )
    r.call(
        "reply_to_ticket",
        {"ticket_id": number, "conversation_id": conversation["id"], "public": True, "body": reply},
        {"message_id": v.id("message", "msg"), "created_at": v.today()},
    )
    if v.chance(0.5):
        copied = v.chance(0.6)
        title = chosen["subject"] if copied else v.made("Customer reports a regression that needs an engineer")
        reporter: dict[str, Any] = {"reporter": requester} if v.chance(0.5) else {}
        issue = v.thing("issue", key=f"ENG-{v.count(100, 9999)}", url=f"https://tracker.example/browse/ENG-{v.count(100, 9999)}")
        description = v.one(
            (
                conversation["text"],
                prose("From support ticket ", chosen["id"], " of ", chosen["email"], ": see there."),
                v.made("Summary: it fails for one customer since the upgrade."),
            )
        )
        r.call(
            "create_issue",
            {**reporter, "project": "ENG", "type": "bug", "title": title, "priority": chosen["priority"], "description": description},
            {**issue.some("key", "url")},
        )
        r.call(
            "add_note",
            {"ticket_id": number, "internal": True, "body": prose("Escalated as ", issue["key"], " (", issue["url"], ")")},
            {"note_id": v.id("note", "note"), "ticket_id": chosen["id"]},
        )
    else:
        r.call("update_ticket", {"ticket_id": number, "status": "solved", "tags": ["answered", "bot"]}, {"id": chosen["id"], "status": "solved"})
    return r


def invoice_payment(v: Values) -> SessionRecorder:
    """Finds unpaid invoices of a company, records payments, and reminds of others."""
    company = v.thing("company", id=v.id("company", "org"), name=v.one(COMPANIES), vat=f"DE{v.count(100_000_000, 999_999_999)}", email=f"billing@{v.domain()}")
    invoices = [
        v.thing(
            "invoice",
            id=number,
            number=f"INV-2026-{v.count(100, 9999):05}",
            due=v.cents(2_000, 500_000),
            day=v.instant(-40, 20),
            issued=v.instant(-80, -41),
            customer=company["id"],
        )
        for number in v.ids("invoice", "inv", v.size(1, 6))
    ]
    asked = v.thing("request", company=company["name"].value, received=v.instant(-3, 0))
    name = company["name"]
    paid_on = asked["received"].dated("day")
    r = SessionRecorder(v, {"company": name, "payment_date": paid_on}, prose("Book the payment that ", name, " made on ", asked["received"].dated("words")))
    money, when = v.style("money", AMOUNT_STYLES), v.style("time", ("day", "iso", "epoch", "midnight"))
    query = name.written(name.value.lower()) if v.chance(0.15) else name
    r.call("find_company", {"name": query, "exact": False}, {"companies": [{**company.some("id", "name", "vat", "email"), "country": "DE"}], "count": 1})
    euros = v.thing("currency", code="EUR")["code"]
    rows = [
        {
            **invoice.some("id", "number"),
            "company_id": invoice["customer"],
            "amount_due": invoice["due"].amount(money),
            "currency": euros,
            "due_date": invoice["day"].dated(when),
            "issued_on": invoice["issued"].dated(when),
            "status": "open",
        }
        for invoice in invoices
    ]
    r.call(
        "list_invoices", {"company_id": company["id"], "status": "open", "page": 1, "per_page": 50}, {"invoices": rows, "page": 1, "per_page": 50, "pages": 1}
    )
    paid = v.some(invoices, 1, 2)
    for invoice in paid:
        payment = v.thing("payment", id=v.id("payment", "pay"), receipt=f"https://pay.example/receipts/{v.text_of(16)}")
        style = v.one(AMOUNT_STYLES)
        r.call(
            "record_payment",
            {
                "invoice_id": v.one((invoice["id"], invoice["id"], invoice["number"])),
                "amount": invoice["due"].amount(style),
                "currency": euros.or_constant(),
                "paid_at": asked["received"].dated(v.one(("day", "day", "midnight", "words"))),
                "method": "bank_transfer",
                "memo": v.one((prose("Payment of ", invoice["number"]), v.made("paid by bank transfer"), prose("Thanks, ", company["name"], "!"))),
            },
            {**payment.some("id", "receipt"), "invoice_id": invoice["id"], "remaining": 0},
        )
        if v.chance(0.5):
            r.call(
                "send_receipt",
                {
                    "payment_id": payment["id"],
                    "to": company["email"],
                    "message": prose("Your receipt: ", payment["receipt"], " (", invoice["due"].amount("text"), " EUR)"),
                },
                {"queued": True},
            )
    for invoice in [one for one in invoices if one not in paid][:2]:
        text = prose(
            "Invoice ",
            invoice["number"],
            " over ",
            invoice["due"].amount(v.one(("text", "dollars"))),
            " was due on ",
            invoice["day"].dated(v.one(("words", "us_words", "day"))),
            ".",
        )
        r.call("send_reminder", {"invoice_id": invoice["id"], "to": company["email"], "text": text, "level": 1}, {"sent": True})
    if v.chance(0.3):
        r.call(
            "export_ledger",
            {"company_id": company["id"], "vat_id": company["vat"], "invoice_ids": [invoice["id"] for invoice in invoices], "format": "csv"},
            {"url": f"https://files.example/{v.hexadecimal(12)}.csv"},
        )
    return r


def flight_booking(v: Values) -> SessionRecorder:
    """Searches flights, checks a price, books it for travelers, and notes it in a calendar."""
    origin, goal = v.some(("LIS", "BER", "ORD", "KIX", "NBO", "YYZ", "CPH"), 2, 2)
    asked = v.thing("request", origin=origin, goal=goal, day=v.instant(10, 90), travelers=v.count(1, 3))
    day = asked["day"].dated("day")
    said = {"from": asked["origin"], "to": asked["goal"], "date": day, "travelers": asked["travelers"]}
    r = SessionRecorder(
        v, said, prose("Book a flight from ", asked["origin"], " to ", asked["goal"], " on ", asked["day"].dated("words"), " for ", asked["travelers"])
    )
    money = v.style("money", AMOUNT_STYLES)
    day_start = f"{day.value}T00:00:00Z"
    dollars = v.thing("currency", code="USD")["code"]
    offers = [
        v.thing(
            "offer",
            id=number,
            flight=f"{v.one(('TP', 'LH', 'UA', 'KL'))}{v.count(100, 2999)}",
            departs=departs,
            arrives=v.later(departs, 60, 700),
            price=v.cents(6_000, 90_000),
            seats=v.count(1, 9),
        )
        for number in v.ids("offer", "off", v.size(2, 6))
        for departs in [v.later(day_start, 300, 1300)]
    ]
    when = v.style("time", ("iso", "offset", "millis", "epoch"))
    found = [
        {
            "offer_id": offer["id"],
            "segments": [
                {"flight": offer["flight"], "departs_at": offer["departs"].dated(when), "arrives_at": offer["arrives"].dated(when), "cabin": "economy"}
            ],
            "price": {"total": offer["price"].amount(money), "currency": dollars},
            "seats_left": offer["seats"],
        }
        for offer in offers
    ]
    search = {
        "origin": asked["origin"],
        "destination": asked["goal"],
        "departure_date": asked["day"].dated(v.one(("day", "day", "midnight"))),
        "adults": asked["travelers"],
        "cabin": "economy",
        "max_stops": 1,
    }
    if v.chance(0.15):
        r.failed_call("search_flights", {**search, "origin": v.made(v.one(CITIES))})
    r.call("search_flights", search, {"offers": found, "count": len(found), "currency": dollars})
    chosen = v.one(offers)
    session = v.thing("hold", token=v.text_of(22), until=v.instant(1, 2))
    r.call(
        "price_offer",
        {"offer_id": chosen["id"], "include_bags": True},
        {"offer_id": chosen["id"], "hold_token": session["token"], "hold_until": session["until"], "total": chosen["price"].amount(money)},
    )
    people = [
        v.person("traveler", "trv", birthday=v.instant(-20_000, -7_000), passport=f"{v.text_of(2, 'CXPL')}{v.count(1_000_000, 9_999_999)}")
        for _ in range(asked["travelers"].value)
    ]
    profiles = [
        {
            **person.some("id", "name", "email", "passport"),
            "birthday": person["birthday"].dated("day"),
            "loyalty": [],
            "preferences": {"seat": "aisle", "meal": None},
        }
        for person in people
    ]
    r.call("list_travelers", {"include_documents": True}, {"travelers": profiles})
    full = v.chance(0.4)
    riders: list[Any] = [
        {"name": person["name"], "date_of_birth": person["birthday"].dated("day"), "passport_number": person["passport"]}
        if full
        else {"traveler_id": person["id"]}
        for person in people
    ]
    booking = v.thing("booking", id=v.id("booking", "bkg"), code=v.text_of(6, "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"))
    r.call(
        "book_flight",
        {
            "offer_id": chosen["id"],
            "hold_token": session["token"],
            "passengers": riders,
            "payment": {"amount": chosen["price"].amount(v.one(AMOUNT_STYLES)), "currency": dollars.or_constant(), "method": "card"},
            "contact_email": people[0]["email"],
        },
        {"booking": {**booking.some("id", "code"), "status": "confirmed", "issued_at": v.today()}},
    )
    if v.chance(0.6):
        title = v.one((prose("Flight ", chosen["flight"], " (", booking["code"], ")"), prose(asked["origin"], " → ", asked["goal"])))
        r.call(
            "create_event",
            {
                "calendar": "primary",
                "title": title,
                "start": chosen["departs"].dated(v.one((when, "iso", "offset"))),
                "end": chosen["arrives"].dated(v.one((when, "iso"))),
                "reminder_minutes": 180,
            },
            {"event_id": v.id("event", "evt"), "html_link": f"https://calendar.example/e/{v.text_of(12)}"},
        )
    if v.chance(0.4):
        r.call("send_itinerary", {"booking_id": booking["id"], "recipients": [person["email"] for person in people], "language": "en"}, {"sent": len(people)})
    return r


def calendar_meeting(v: Values) -> SessionRecorder:
    """Finds people and a free time, and makes a meeting in a time zone."""
    people = [v.person("colleague", "usr", zone=v.one(("Europe/Berlin", "America/Chicago", "Asia/Tokyo"))) for _ in range(v.count(2, 4))]
    topic = v.one(TOPICS)
    asked = v.thing(
        "request", topic=f"{topic} review", minutes=v.one((25, 30, 45, 60)), day=v.instant(1, 20), names=[person["name"].value for person in people]
    )
    said = {"topic": asked["topic"], "duration_minutes": asked["minutes"], "day": asked["day"].dated("day")}
    named = v.chance(0.5)
    if named:
        said["attendees"] = v.thing("names", all=[person["name"] for person in people])["all"]
    request = prose("Plan a ", asked["topic"], " of ", asked["minutes"], " minutes on ", asked["day"].dated("us_words"), " with ", people[0]["name"])
    r = SessionRecorder(v, said, request)
    style = v.style("time", ("iso", "offset", "epoch", "millis"))
    if v.chance(0.4):
        r.call(
            "get_current_time", {"timezone": "UTC"}, {"now": v.thing("clock", now=v.instant(0, 0))["now"].dated(style), "timezone": "UTC", "date": v.today()}
        )
    for person in people:
        query: Any = person["name"] if named else v.made(person["name"].value.split()[0])
        if query.made:
            query = v.made(f"{v.one(('lead of', 'who owns', 'team of'))} {v.one(TOPICS)}")
        record = {**person.some("id", "name", "email"), "timezone": person["zone"], "working_hours": {"start": "09:00", "end": "17:00"}}
        r.call("find_person", {"query": query, "limit": 5}, {"people": [record], "truncated": False})
    starts = [v.later(f"{asked['day'].value[:10]}T06:00:00Z", 0, 600) for _ in range(v.count(1, 4))]
    slots = [v.thing("slot", start=start, end=v.later(start, asked["minutes"].value, asked["minutes"].value)) for start in starts]
    key, by = v.one((("emails", "email"), ("user_ids", "id")))
    r.call(
        "find_free_slots",
        {
            key: [person[by] for person in people],
            "window_start": asked["day"].dated(v.one(("midnight", "day"))),
            "duration": asked["minutes"],
            "timezone": people[0]["zone"],
            "max_results": 5,
        },
        {"slots": [{"start": slot["start"].dated(style), "end": slot["end"].dated(style), "score": v.count(1, 10)} for slot in slots]},
    )
    slot = v.one(slots)
    rooms = [v.thing("room", id=v.id("room", "room"), name=f"{v.one(CITIES)} {v.count(1, 4)}", seats=v.count(2, 12)) for _ in range(3)]
    with_room = v.chance(0.5)
    if with_room:
        r.call(
            "list_rooms",
            {"capacity": v.made(len(people)), "start": slot["start"].dated(v.one((style, "iso"))), "end": slot["end"].dated(v.one((style, "iso")))},
            {"rooms": [room.some("id", "name", "seats") for room in rooms]},
        )
    event = v.thing("event", id=v.id("event", "evt"), link=f"https://meet.example/{v.text_of(10)}")
    arguments: dict[str, Any] = {
        "title": v.one((asked["topic"], asked["topic"].written(asked["topic"].value.capitalize()), v.made("Sync"))),
        "start": slot["start"].dated(v.one((style, style, "iso", "offset"))),
        "end": slot["end"].dated(v.one((style, style, "iso", "offset"))),
        "timezone": people[0]["zone"],
        "attendees": v.one(([{"email": person["email"]} for person in people], [person["email"] for person in people])),
        "send_invites": True,
    }
    if with_room:
        arguments["room_id"] = v.one(rooms)["id"]
    r.call("create_event", arguments, {"event": {**event.some("id", "link"), "status": "confirmed", "created": v.today()}})
    if v.chance(0.6):
        text = prose("Meeting on ", slot["start"].dated(v.one(("words", "us_words"))), ": ", event["link"])
        r.call("post_message", {"channel": "#general", "text": text}, {"ok": True, "ts": str(v.count(10**9, 2 * 10**9))})
    return r


def user_provisioning(v: Values) -> SessionRecorder:
    """Makes an account, adds it to groups, assigns a license and writes a welcome."""
    manager = v.person("manager", "usr")
    person = v.person("user", "usr", department=v.one(("Finance", "Design", "Support")), title=v.one(("Analyst", "Designer", "Agent")), start=v.instant(3, 40))
    said = {
        **person.some("first_name", "last_name", "email", "department", "title"),
        "start_date": person["start"].dated("day"),
        "manager_email": manager["email"],
    }
    r = SessionRecorder(
        v,
        said,
        prose("Make an account for ", person["name"], " (", person["email"], "), starting on ", person["start"].dated("words"), ", manager ", manager["email"]),
    )
    if v.chance(0.7):
        r.call("find_user", {"email": manager["email"]}, {"user": {**manager.some("id", "name", "email"), "status": "active", "groups": ["staff"]}})
        boss: dict[str, Any] = {"manager_id": manager["id"]}
    else:
        boss = {}
    login = v.thing("login", name=person["email"].value.split("@")[0])["name"]
    body = {
        "profile": {**person.some("first_name", "last_name", "email", "department"), "job_title": person["title"], **boss},
        "username": person["email"].written(login.value) if v.chance(0.5) else person["email"],
        "start_date": person["start"].dated(v.one(("day", "day", "midnight", "midnight_epoch"))),
        "active": True,
        "role": "member",
    }
    account = v.thing("account", id=v.id("user", "usr"), invite=f"https://id.example/activate?token={v.text_of(20)}", login=login)
    r.call(
        "create_user",
        body,
        {
            "user": {"id": account["id"], "email": person["email"], "username": account["login"], "status": "staged", "created_at": v.today()},
            "activation_url": account["invite"],
        },
    )
    groups = [
        v.thing("group", id=number, name=name, members=v.count(3, 80))
        for number, name in zip(v.ids("group", "grp", 5), ("everyone", "finance", "design", "support", "vpn"), strict=True)
    ]
    r.call("list_groups", {"limit": 100}, {"groups": [group.some("id", "name", "members") for group in groups], "next_cursor": None})
    chosen = v.some(groups, 1, 3)
    if v.chance(0.35):
        r.call("add_to_groups", {"user_id": account["id"], "group_ids": [group["id"] for group in chosen]}, {"added": len(chosen)})
    else:
        for group in chosen:
            r.call(
                "add_group_member",
                {"group_id": group["id"], "user_id": account["id"], "role": "member"},
                {"group": group["name"], "member_count": group["members"].value + 1},
            )
    if v.chance(0.6):
        licenses = [v.thing("license", sku=sku, free=v.count(0, 30)) for sku in ("OFFICE_E3", "CRM_PRO", "DESIGN_SEAT")]
        r.call("list_licenses", {"available_only": True}, [{"sku": item["sku"], "available": item["free"]} for item in licenses])
        r.call("assign_license", {"user_id": account["id"], "sku": v.one(licenses)["sku"]}, {"ok": True, "remaining": v.count(0, 29)})
    copied = [manager["email"]] if v.chance(0.6) else []
    text = v.one(
        (
            prose("Welcome ", person["first_name"], "! Your account is ready: ", account["invite"]),
            prose(
                "Hello ",
                person["first_name"],
                " ",
                person["last_name"],
                ",\nplease activate your account at ",
                account["invite"],
                " before ",
                person["start"].dated("us_words"),
                ".",
            ),
            v.made("Welcome aboard! Please find the first steps in the handbook."),
        )
    )
    r.call(
        "send_email",
        {"to": [person["email"]], "cc": copied, "subject": v.one(("Welcome!", prose("Welcome, ", person["first_name"]))), "text": text},
        {"id": v.uuid(), "accepted": True},
    )
    if v.chance(0.4):
        r.call(
            "create_task",
            {
                "title": prose("Hardware for ", person["first_name"]),
                "assignee": manager["email"],
                "due": person["start"].dated("day"),
                "labels": ["onboarding"],
            },
            {"task_id": v.id("task", "task")},
        )
    return r


def hiring_pipeline(v: Values) -> SessionRecorder:
    """Lists candidates of a job, moves one on, and writes to the candidate and the interviewers."""
    job = v.thing("job", id=v.id("job", "job"), title=v.one(("Backend Engineer", "Data Analyst", "Office Manager")), city=v.one(CITIES))
    candidates = [
        v.person("candidate", "cand", score=v.count(40, 99), applied=v.instant(-30, -1), resume=f"https://files.example/cv/{v.text_of(9)}.pdf")
        for _ in range(v.count(2, 6))
    ]
    r = SessionRecorder(v, {"job_title": job["title"], "min_score": 70}, prose("Invite the best candidate for ", job["title"]))
    r.call(
        "list_jobs",
        {"status": "open", "query": job["title"]},
        {"jobs": [{**job.some("id", "title", "city"), "openings": v.count(1, 3), "remote": v.chance(0.5)}]},
    )
    style = v.style("time", DATE_STYLES)
    rows = [
        {**one.some("id", "name", "email", "score"), "applied_at": one["applied"].dated(style), "stage": "screen", "resume_url": one["resume"]}
        for one in candidates
    ]
    arguments = {"job_id": job["id"], "stage": "screen", "page": 1, "limit": 50}
    r.call("list_candidates", arguments, {"items": rows, "page": 1, "total": len(rows)})
    chosen = max(candidates, key=lambda one: int(one["score"].value))
    r.call(
        "get_document",
        {"url": chosen["resume"]},
        {"text": prose(chosen["name"], "\n", chosen["email"], "\nSix years of experience with Python, SQL and Kafka."), "pages": 2},
    )
    r.call(
        "add_evaluation",
        {"candidate_id": chosen["id"], "rating": 4, "summary": v.made("Solid experience in data pipelines; good match.")},
        {"evaluation_id": v.id("evaluation", "eval"), "rating": 4},
    )
    r.call(
        "move_candidate",
        {"candidate_id": chosen["id"], "job_id": job["id"], "stage": "interview"},
        {"id": chosen["id"], "stage": "interview", "moved_on": v.today()},
    )
    when = v.made(v.later(f"{v.instant(3, 12)[:10]}T08:00:00Z", 0, 540))
    text = v.one(
        (
            prose(
                "Dear ",
                chosen["name"],
                ", thank you for your application of ",
                chosen["applied"].dated("words"),
                " as ",
                job["title"],
                " in ",
                job["city"],
                ".",
            ),
            v.made("Thank you for applying! We would like to meet you next week."),
        )
    )
    interview = v.thing("interview", id=v.id("interview", "itv"))
    r.call(
        "schedule_interview",
        {"candidate_id": chosen["id"], "starts_at": when, "minutes": 45, "location": v.one(("video", job["city"]))},
        {"interview_id": interview["id"], "starts_at": when, "candidate": chosen.whole("id", "name", "email"), "status": "scheduled"},
    )
    r.call("send_email", {"to": chosen["email"], "subject": prose("Your application: ", job["title"]), "body": text, "attachments": []}, {"queued": True})
    if v.chance(0.5):
        r.call(
            "notify_panel",
            {"interview_id": interview["id"], "start": when.dated(v.one(("iso", "offset", "epoch"))), "profile": chosen.whole("id", "name", "email")},
            {"notified": 3},
        )
    return r


def expense_report(v: Values) -> SessionRecorder:
    """Reads card transactions of a month and files those of a trip as a report."""
    person = v.person("employee", "emp")
    city = v.thing("trip", city=v.one(CITIES), start=v.instant(-30, -20), end=v.instant(-19, -10))
    said = {"employee_email": person["email"], "city": city["city"], "trip_start": city["start"].dated("day"), "trip_end": city["end"].dated("day")}
    r = SessionRecorder(v, said, prose("File the expenses of ", person["email"], " in ", city["city"]))
    money, when = v.style("money", AMOUNT_STYLES), v.style("time", DATE_STYLES)
    r.call(
        "lookup_employee",
        {"email": person["email"]},
        {"employee": {**person.some("id", "name", "email"), "cost_center": v.count(100, 999), "card": {"last4": str(v.count(1000, 9999))}}},
    )
    rows = [
        v.thing(
            "transaction",
            id=number,
            merchant=v.one(("Hotel Mira", "City Taxi", "Rail Europe", "Cafe Nord")),
            amount=v.cents(500, 60_000),
            at=v.instant(-30, -10),
        )
        for number in v.ids("transaction", "txn", v.size(3, 9))
    ]
    euros = v.thing("currency", code="EUR")["code"]
    recorded = [
        {**row.some("id", "merchant"), "amount": row["amount"].amount(money), "currency": euros, "posted_at": row["at"].dated(when), "category": None}
        for row in rows
    ]
    r.call(
        "list_transactions",
        {
            "employee_id": person["id"],
            "from": city["start"].dated(v.one(("day", "midnight", "midnight_epoch"))),
            "to": city["end"].dated(v.one(("day", "midnight"))),
            "limit": 100,
        },
        {"transactions": recorded, "has_more": False, "limit": 100},
    )
    picked = v.some(rows, 2, 5)
    report = v.thing("report", id=v.id("report", "rep"))
    title = v.one(
        (prose("Trip to ", city["city"]), prose(city["city"], ", ", city["start"].dated("words"), " – ", city["end"].dated("words")), v.made("Travel expenses"))
    )
    r.call(
        "create_report",
        {"employee_id": person["id"], "title": title, "currency": euros.or_constant()},
        {"report": {"id": report["id"], "status": "draft", "total": 0}},
    )
    if v.chance(0.5):
        r.call("attach_transactions", {"report_id": report["id"], "transaction_ids": [row["id"] for row in picked]}, {"attached": len(picked)})
    else:
        for row in picked:
            r.call(
                "add_expense",
                {
                    "report_id": report["id"],
                    "transaction_id": row["id"],
                    "amount": row["amount"].amount(v.one((money, *AMOUNT_STYLES))),
                    "date": row["at"].dated(v.one(("day", "day", when))),
                    "category": v.one(("lodging", "transport", "meals")),
                    "note": v.one((row["merchant"], prose("Paid to ", row["merchant"]))),
                },
                {"expense_id": v.id("expense", "exp"), "report_id": report["id"]},
            )
    r.call(
        "submit_report",
        {"report_id": report["id"], "comment": v.made("All receipts are attached."), "submitted_on": v.made(v.today())},
        {"id": report["id"], "status": "submitted"},
    )
    return r


BUSINESS: tuple[Any, ...] = (
    *(customer_refund, shop_cart, support_ticket, invoice_payment, flight_booking),
    *(calendar_meeting, user_provisioning, hiring_pipeline, expense_report),
)
